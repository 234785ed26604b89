// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/experts/expert_client.hpp>

#include <causeway/sim/world.hpp>

#include <chrono>
#include <functional>
#include <stdexcept>

#include "support/catch.hpp"

namespace causeway::parallel {
namespace {

using namespace std::chrono_literals;

/// A host that does what it is told with every request.
struct scripted_host final : net::fabric_events {
  using reaction = std::function<void(scripted_host&, const expert_wire::request&)>;
  scripted_host(std::shared_ptr<net::fabric> f, const expert_mixture_options& m, std::vector<stage::expert_id> experts,
                reaction react)
      : fabric{std::move(f)}, run{agreement(m)}, has{std::move(experts)}, on_request{std::move(react)} {
    fabric->attach(this);
  }
  scripted_host(const scripted_host&) = delete;
  scripted_host& operator=(const scripted_host&) = delete;
  ~scripted_host() override { fabric->attach(nullptr); }
  void say(const expert_wire::message& m) { fabric->post(link, expert_wire::encode(run, m)); }
  void on_up(net::peer_index l, net::peer_id, const std::string&) override {
    link = l;
    say(expert_wire::announcement{60000, has});
  }
  void on_down(net::peer_index, const error&) override { ++downs; }
  void on_unreachable(const std::string&, const error&) override {}
  void on_control(net::peer_index, std::span<const std::byte> bytes) override {
    const auto m = expert_wire::decode(run, bytes);
    if (!m) throw std::runtime_error{m.error().text()};
    asked.push_back(std::get<expert_wire::request>(*m));
    on_request(*this, asked.back());
  }
  void on_wake() override {
    if (later) later();
  }
  std::shared_ptr<net::fabric> fabric;
  std::uint64_t run;
  std::vector<stage::expert_id> has;
  reaction on_request;
  std::function<void()> later;
  net::peer_index link = 0;
  int downs = 0;
  std::vector<expert_wire::request> asked;
};

/// Ten times the values, of a backward ten times the gradients.
void answer(scripted_host& h, const expert_wire::request& r) {
  const std::size_t skip = r.backward != 0 ? r.values.size() / 2 : 0;
  expert_wire::answer a{r.number, {}};
  for (std::size_t i = skip; i < r.values.size(); ++i) a.values.push_back(10 * r.values[i]);
  h.say(a);
}

void with_client(const expert_mixture_options& m, std::vector<stage::expert_id> experts, scripted_host::reaction react,
                 const std::function<void(sim::process&, expert_client&, scripted_host&)>& talk) {
  sim::world w{{.seed = 1, .link = {.latency = 10ms}}};
  w.add_host({});
  w.add_host({});
  bool talked = false;
  scripted_host* host = nullptr;
  w.boot(0, [&](sim::process& p) {
    scripted_host h{p.make_fabric(1), m, experts, react};
    host = &h;
    p.sleep_till(time_point{60s});
  });
  w.boot(1, [&](sim::process& p) {
    const auto client = expert_client::create(p.make_fabric(9), {.mixture = m, .dial = {"host-0:1"}, .patience = 2s});
    if (!client) throw std::runtime_error{client.error().text()};
    p.sleep_till(time_point{1s});
    talk(p, **client, *host);
    talked = true;
  });
  w.run_until(time_point{50s});
  CHECK(talked);
}

const expert_mixture_options small{.run = 1, .sides = {4}, .width = 2, .layers = 2};

}  // namespace

TEST_CASE("expert_client: each expert gets its rows in one message, and answers find their items", "[parallel][fast]") {
  with_client(small, {0, 5, 7}, answer, [](sim::process&, expert_client& client, scripted_host& host) {
    CHECK(client.alive().size() == 3);
    const std::vector<stage::expert_id> expert{5, 0, 5, 7, 3};
    const std::vector<std::size_t> row{0, 0, 1, 2, 2};
    const std::vector<float> x{1, 2, 3, 4, 5, 6};
    std::vector<float> out(10, -1.0F);
    const auto answered = client.ask({expert, row, x}, out);
    REQUIRE(answered);
    CHECK(*answered == std::vector<std::uint8_t>{1, 1, 1, 1, 0});  // nobody has expert 3
    CHECK(out == std::vector<float>{10, 20, 10, 20, 30, 40, 50, 60, -1, -1});
    REQUIRE(host.asked.size() == 3);
    CHECK((host.asked[1].expert == 5 && host.asked[1].values == std::vector<float>{1, 2, 3, 4}));

    const std::vector<float> gradients{.1F, .2F, .3F, .4F, .5F, .6F, .7F, .8F, .9F, 1};
    const std::vector<std::uint8_t> wanted{1, 0, 1, 0, 0};
    const auto back = client.ask({expert, row, x, gradients, wanted}, out);
    REQUIRE(back);
    CHECK(*back == std::vector<std::uint8_t>{1, 0, 1, 0, 0});
    REQUIRE(host.asked.size() == 4);
    CHECK((host.asked[3].backward == 1 && host.asked[3].values == std::vector<float>{1, 2, 3, 4, .1F, .2F, .5F, .6F}));
    CHECK(out[4] == 10 * .5F);
  });
}

TEST_CASE("expert_client: who is late is left out until it announces itself, and its answer is not mixed up",
          "[parallel][fast]") {
  const auto late = [](scripted_host& h, const expert_wire::request& r) {
    if (h.asked.size() > 1) return answer(h, r);
    h.later = [&h, r] { answer(h, r); };
    h.fabric->wake_at(h.fabric->now() + 3s);
  };
  with_client(small, {5}, late, [](sim::process& p, expert_client& client, scripted_host& host) {
    const std::vector<stage::expert_id> expert{5};
    const std::vector<std::size_t> row{0};
    const std::vector<float> x{1, 2}, other{7, 8};
    std::vector<float> out(2);
    const time_point begin = p.now();
    CHECK(client.ask({expert, row, x}, out).value() == std::vector<std::uint8_t>{0});
    CHECK(p.now() - begin == 2s);
    CHECK(client.alive().size() == 0);
    CHECK(client.ask({expert, row, other}, out).value() == std::vector<std::uint8_t>{0});
    CHECK(host.asked.size() == 1);  // it was not asked again
    host.fabric->locked([&] { host.say(expert_wire::announcement{60000, {5}}); });
    p.sleep(100ms);
    CHECK(client.alive().size() == 1);
    p.sleep(2s);  // the late answer comes
    CHECK(client.ask({expert, row, other}, out).value() == std::vector<std::uint8_t>{1});
    CHECK(out == std::vector<float>{70, 80});
  });
}

TEST_CASE("expert_client: answers of another length, and experts of nowhere, end the connection", "[parallel][fast]") {
  const auto wrong = [](scripted_host& h, const expert_wire::request& r) {
    h.say(expert_wire::answer{r.number, {1, 2, 3}});
  };
  with_client(small, {5}, wrong, [](sim::process& p, expert_client& client, scripted_host& host) {
    const std::vector<stage::expert_id> expert{5};
    const std::vector<std::size_t> row{0};
    const std::vector<float> x{1, 2};
    std::vector<float> out(2);
    CHECK(client.ask({expert, row, x}, out).value() == std::vector<std::uint8_t>{0});
    p.sleep(1s);
    CHECK(host.downs >= 1);
  });
  with_client(small, {5, 8}, answer, [](sim::process&, expert_client& client, scripted_host& host) {
    CHECK(client.alive().size() == 0);
    CHECK(host.downs >= 1);
  });
}

TEST_CASE("expert_client: rows that do not fit one message go in several", "[parallel][fast]") {
  const expert_mixture_options wide{.run = 1, .sides = {2}, .width = 1000};
  with_client(wide, {1}, answer, [](sim::process&, expert_client& client, scripted_host& host) {
    const std::vector<stage::expert_id> expert(300, 1);
    std::vector<std::size_t> row(300);
    std::vector<float> x(300 * 1000);
    for (std::size_t r = 0; r < 300; ++r) row[r] = r, x[r * 1000] = static_cast<float>(r);
    std::vector<float> out(x.size());
    const auto answered = client.ask({expert, row, x}, out);
    REQUIRE(answered);
    CHECK(host.asked.size() == 3);
    bool right = true;
    for (std::size_t r = 0; r < 300; ++r) right = right && (*answered)[r] == 1 && out[r * 1000] == 10 * x[r * 1000];
    CHECK(right);
  });
}

TEST_CASE("expert_client: widths that no message takes are refused", "[parallel][fast]") {
  sim::world world{{.seed = 1}};
  world.add_host({});
  world.boot(0, [&](sim::process& p) {
    CHECK_FALSE(expert_client::create(p.make_fabric(7), {.mixture = {.sides = {2}, .width = 0}}));
    const auto most = static_cast<std::int64_t>(expert_wire::most_values);
    CHECK_FALSE(expert_client::create(p.make_fabric(8), {.mixture = {.sides = {2}, .width = most}}));
    CHECK_FALSE(expert_client::create(p.make_fabric(9), {.mixture = {.sides = {2}, .width = 4, .layers = 0}}));
  });
  CHECK(world.run());
}

}  // namespace causeway::parallel
