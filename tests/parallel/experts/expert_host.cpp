// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/experts/expert_host.hpp>

#include <causeway/sim/world.hpp>

#include <chrono>
#include <functional>
#include <stdexcept>

#include "support/catch.hpp"

namespace causeway::parallel {
namespace {

using namespace std::chrono_literals;

/// Doubles rows; a backward gives what it was given and counts.
struct doubler {
  std::int64_t wide = 2;
  std::uint64_t moved = 0;
  [[nodiscard]] std::int64_t width() const noexcept { return wide; }
  static result<void> forward(std::span<const float> x, std::span<float> y) {
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = 2 * x[i];
    return {};
  }
  result<void> backward(std::span<const float>, std::span<const float> dy, std::span<float> dx) {
    if (dy[0] < 0) return fail(errc::non_finite, "doubler", "no");
    std::copy(dy.begin(), dy.end(), dx.begin());
    ++moved;
    return {};
  }
};
static_assert(stage::Expert<doubler>);

const expert_mixture_options places{.run = 3, .sides = {2, 2}, .width = 2};

/// A trainer that says what it is told to, and keeps what it hears.
struct stranger final : net::fabric_events {
  explicit stranger(std::shared_ptr<net::fabric> f) : fabric{std::move(f)} {
    fabric->attach(this);
    fabric->locked([this] { fabric->dial("host-0:1"); });
  }
  stranger(const stranger&) = delete;
  stranger& operator=(const stranger&) = delete;
  ~stranger() override { fabric->attach(nullptr); }
  void on_up(net::peer_index l, net::peer_id, const std::string&) override { link = l; }
  void on_down(net::peer_index, const error&) override { ++downs; }
  void on_unreachable(const std::string&, const error&) override {}
  void on_control(net::peer_index, std::span<const std::byte> bytes) override {
    const auto m = expert_wire::decode(agreement(places), bytes);
    if (!m) throw std::runtime_error{m.error().text()};
    if (const auto* a = std::get_if<expert_wire::announcement>(&*m)) announced.push_back(*a);
    if (const auto* a = std::get_if<expert_wire::answer>(&*m)) answers.push_back(*a);
  }
  void on_wake() override {}
  void say(const expert_wire::message& m) {
    fabric->locked([&] { fabric->post(link, expert_wire::encode(agreement(places), m)); });
  }
  bool heard(std::size_t count) {
    const auto all = fabric->block([&] { return answers.size() >= count; }, deadline);
    return all && *all;
  }
  std::shared_ptr<net::fabric> fabric;
  net::peer_index link = 0;
  int downs = 0;
  time_point deadline{60s};
  std::vector<expert_wire::announcement> announced;
  std::vector<expert_wire::answer> answers;
};

/// A host of experts 1 and 2 that computes from second 2 on, and what `talk` does from second 1 on.
void with_host(
    std::size_t most_queued, const std::function<void(sim::process&, stranger&)>& talk,
    const std::function<void(expert_host<doubler>&)>& look = [](auto&) {}) {
  sim::world w{{.seed = 1, .link = {.latency = 10ms}}};
  w.add_host({});
  w.add_host({});
  bool over = false, talked = false;
  w.boot(0, [&](sim::process& p) {
    expert_host<doubler> host{p.make_fabric(1), {.mixture = places, .most_queued = most_queued}, {{1, {}}, {2, {}}}};
    if (!host.open()) throw std::runtime_error{"open"};
    p.sleep_till(time_point{2s});
    if (!host.serve([&] { return over; }, time_point{30s})) throw std::runtime_error{"serve"};
    look(host);
  });
  w.boot(1, [&](sim::process& p) {
    stranger s{p.make_fabric(9)};
    p.sleep_till(time_point{1s});
    talk(p, s);
    talked = true;
  });
  w.run_until(time_point{60s});
  CHECK(talked);
}

}  // namespace

TEST_CASE("expert_host: answers forwards and backwards of its experts, and moves them", "[parallel][fast]") {
  with_host(
      256,
      [](sim::process&, stranger& s) {
        s.say(expert_wire::request{5, 0, 1, {1, 2, 3, 4}});
        s.say(expert_wire::request{6, 1, 2, {1, 2, 7, 8}});
        REQUIRE(s.heard(2));
        CHECK((s.answers[0].number == 5 && s.answers[0].values == std::vector<float>{2, 4, 6, 8}));
        CHECK((s.answers[1].number == 6 && s.answers[1].values == std::vector<float>{7, 8}));
      },
      [](expert_host<doubler>& host) {
        CHECK(host.experts().at(1).moved == 0);
        CHECK(host.experts().at(2).moved == 1);
        CHECK(host.refused() == 0);
      });
}

TEST_CASE("expert_host: what it cannot serve is answered with nothing, and nothing moves", "[parallel][fast]") {
  with_host(
      256,
      [](sim::process&, stranger& s) {
        s.say(expert_wire::request{1, 0, 0, {1, 2}});  // not here
        s.say(expert_wire::request{2, 0, 1ULL << 40U, {1, 2}});
        s.say(expert_wire::request{3, 0, 1, {1, 2, 3}});  // no whole row
        s.say(expert_wire::request{4, 1, 1, {1, 2, 3}});  // no two halves
        s.say(expert_wire::request{5, 0, 1, {}});
        s.say(expert_wire::request{6, 1, 1, {1, 2, -1, 8}});  // the expert fails
        s.say(expert_wire::request{7, 0, 1, {3e38F, 0}});     // its output is not finite
        REQUIRE(s.heard(7));
        for (const auto& a : s.answers) CHECK(a.values.empty());
      },
      [](expert_host<doubler>& host) {
        CHECK(host.refused() == 7);
        CHECK(host.experts().at(1).moved == 0);
      });
}

TEST_CASE("expert_host: announces its experts when a peer comes, and again and again", "[parallel][fast]") {
  with_host(256, [](sim::process& p, stranger& s) {
    p.sleep_till(time_point{6s});
    CHECK(s.announced.size() >= 5);
    for (const auto& a : s.announced) {
      CHECK(a.experts == std::vector<stage::expert_id>{1, 2});
      CHECK(a.milliseconds == 5000);
    }
  });
}

TEST_CASE("expert_host: more requests than it keeps are refused at once", "[parallel][fast]") {
  with_host(2, [](sim::process&, stranger& s) {  // nobody computes before second 2
    for (std::uint64_t n = 1; n <= 4; ++n) s.say(expert_wire::request{n, 0, 1, {1, 2}});
    REQUIRE(s.heard(4));
    CHECK((s.answers[0].number == 3 && s.answers[0].values.empty()));
    CHECK((s.answers[1].number == 4 && s.answers[1].values.empty()));
    CHECK((s.answers[2].number == 1 && s.answers[2].values.size() == 2));
  });
}

TEST_CASE("expert_host: who speaks of another run, or nonsense, is sent away", "[parallel][fast]") {
  with_host(256, [](sim::process& p, stranger& s) {
    s.fabric->locked([&] { s.fabric->post(s.link, expert_wire::encode(77, expert_wire::request{1, 0, 1, {1, 2}})); });
    p.sleep(1s);
    CHECK(s.downs == 1);
    CHECK(s.answers.empty());
  });
}

TEST_CASE("expert_host: experts that the mixture has no place for are refused", "[parallel][fast]") {
  sim::world w{{.seed = 1}};
  w.add_host({});
  w.boot(0, [&](sim::process& p) {
    CHECK_FALSE((expert_host<doubler>{p.make_fabric(1), {.mixture = places}, {{4, {}}}}.open()));
    CHECK_FALSE((expert_host<doubler>{p.make_fabric(1), {.mixture = places}, {{1, {.wide = 3}}}}.open()));
  });
  CHECK(w.run());
}

}  // namespace causeway::parallel
