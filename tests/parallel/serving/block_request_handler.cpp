// SPDX-License-Identifier: Apache-2.0
// What clients must not do, and that a server goes on for the others.
#include <causeway/parallel/serving/block_request_handler.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/tuned_gpt.hpp"

namespace causeway::parallel {
namespace {

using namespace std::chrono_literals;
using block_wire::request;

/// Says what it is told to, and keeps what it hears.
struct stranger final : net::fabric_events {
  explicit stranger(std::shared_ptr<net::fabric> f) : fabric{std::move(f)} {
    fabric->attach(this);
    fabric->locked([this] { fabric->dial("host-0:1"); });
    (void)fabric->block([this] { return announced > 0; }, no_deadline);
  }
  stranger(const stranger&) = delete;
  stranger& operator=(const stranger&) = delete;
  ~stranger() override { fabric->attach(nullptr); }
  void on_up(net::peer_index l, net::peer_id, const std::string&) override { link = l; }
  void on_down(net::peer_index, const error& why) override {
    ++downs;
    reason = why.message;
  }
  void on_unreachable(const std::string&, const error&) override {}
  void on_control(net::peer_index, std::span<const std::byte> bytes) override {
    const auto m = block_wire::decode(run, bytes);
    if (m && std::holds_alternative<block_wire::announcement>(*m))
      ++announced, last = std::get<block_wire::announcement>(*m);
    if (m && std::holds_alternative<block_wire::echo>(*m)) ++echoes;
  }
  void on_wake() override {}
  void say(const block_wire::message& m) {
    fabric->locked([&] { fabric->post(link, block_wire::encode(run, m)); });
  }
  void ask(const request& r, std::vector<std::byte> data) {
    say(r);
    kept.push_back(std::move(data));
    sends.push_back(fabric->send(link, block_wire::request_id(r.number), kept.back()));
  }
  /// The answer's size; 0 where none came in time.
  std::size_t answer(std::uint64_t number, duration patience = 5s) {
    std::vector<std::byte> room(1U << 16U);
    const auto op = fabric->receive(link, block_wire::answer_id(number), room);
    time_point now;
    fabric->locked([&] { now = fabric->now(); });
    const auto got = fabric->wait(op, now + patience);
    return got ? *got : 0;
  }
  std::shared_ptr<net::fabric> fabric;
  std::uint64_t run = span_run(5, stage::family_agreement<nn::gpt_family>(support::frozen_gpt), stage::plain{});
  net::peer_index link = 0;
  int downs = 0, announced = 0, echoes = 0;
  std::string reason;
  block_wire::announcement last;
  std::deque<std::vector<std::byte>> kept;
  std::vector<net::operation> sends;
};

/// Of two sequences of four rows.
request usual(std::uint64_t number, bool backward = false) {
  request r;
  r.number = number, r.backward = backward ? 1 : 0, r.blocks = {1, 3}, r.sequences = 2, r.tokens = 4;
  r.x_bytes = 8 * 16 * 4;
  return r;
}
std::vector<std::byte> rows_for(const request& r, float value = 0.5F) {
  const std::size_t rows = 8 * (r.backward != 0 ? 2 : 1);
  const std::int64_t tuned = r.blocks.size() * r.tuning().values(16, nn::gpt_family::maps(support::frozen_gpt));
  const std::vector<float> values(rows * 16 + static_cast<std::size_t>(tuned), value);
  const auto bytes = std::as_bytes(std::span{values});
  return {bytes.begin(), bytes.end()};
}

/// The size of the answer to a request whose rows are as it says.
std::size_t answered(stranger& s, const request& r) {
  s.ask(r, rows_for(r));
  return s.answer(r.number);
}

/// A server of blocks [0, 4), and what a stranger does.
void with_server(const std::function<void(sim::process&, stranger&)>& talk,
                 const std::function<void(block_server_options&)>& change = {}) {
  auto model = support::pretrained_gpt();
  support::served_gpt<> swarm{model};
  swarm.add_server([&](auto& o) {
    o.first = 0, o.blocks = 4, o.most_rows = 24, o.most_requests = 2;
    if (change) change(o);
  });
  bool talked = false;
  const auto host = swarm.world.add_host({});
  swarm.world.boot(host, [&](sim::process& p) {
    stranger s{p.make_fabric(9)};
    talk(p, s);
    talked = true;
  });
  swarm.world.run_until(time_point{300s});
  CHECK(talked);
}

/// Whether a server still answers another client.
bool serves_others(sim::process& p) {
  stranger other{p.make_fabric(11)};
  return answered(other, usual(1)) == 8 * 16 * 4;
}

}  // namespace

TEST_CASE("block_request_handler: says what it holds and takes, and sends probes back", "[parallel][fast]") {
  with_server([](sim::process& p, stranger& s) {
    CHECK(s.last.offer.blocks == nn::block_range{0, 4});
    CHECK(s.last.offer.most_rows == 24);
    CHECK(s.last.offer.most_requests == 2);
    CHECK(s.last.offer.seconds == Approx(10e-6));
    CHECK(s.last.throughput == Approx(1 / 40e-6));
    s.say(block_wire::probe{7});
    p.sleep(5s);
    CHECK(s.echoes == 1);
    CHECK(s.announced >= 4);
  });
}

TEST_CASE(
    "block_request_handler: requests within the limits are answered, of both kinds, with prompts or adapters and without",
    "[parallel][fast]") {
  with_server([](sim::process&, stranger& s) {
    CHECK(answered(s, usual(1)) == 8 * 16 * 4);
    request r = usual(2, true);
    r.prompts = 3;
    CHECK(answered(s, r) == (8 + 2 * 3) * 16 * 4);
    r = usual(4, true);
    r.adapters = {2, 0b101};  // 8 rows for each of two blocks, and 8: as many as it takes
    CHECK(answered(s, r) == (8 + 2 * 8) * 16 * 4);
    r = usual(3);
    r.blocks = {3, 6};  // not all of them are here
    CHECK(answered(s, r) == 1);
    CHECK(s.downs == 0);
  });
}

TEST_CASE("block_request_handler: who breaks the rules is sent away, told why, and others are served", "[parallel][fast]") {
  struct breach {
    const char* what;
    std::function<void(stranger&)> act;
    const char* reason;
  };
  const auto changed = [](auto change) {
    return [change](stranger& s) {
      request r = usual(1);
      change(r);
      s.ask(r, rows_for(usual(1)));
    };
  };
  const auto nan_at_the_end = [](auto change) {
    return [change](stranger& s) {
      request r = usual(1);
      change(r);
      auto data = rows_for(r);
      std::fill(data.end() - 4, data.end(), std::byte{0xFF});
      s.ask(r, data);
    };
  };
  const auto with_adapters = [](nn::adapter_shape shape, nn::block_range blocks = {1, 3}) {
    return [shape, blocks](request& r) { r.adapters = shape, r.blocks = blocks; };
  };
  const std::vector<breach> breaches{
      {"rows", changed([](request& r) { r.sequences = 7; }), "more rows"},
      {"rows that overflow", changed([](request& r) { r.sequences = r.tokens = block_wire::most_tokens - 1; }),
       "more rows"},
      {"tokens", changed([](request& r) { r.sequences = 1, r.tokens = 13; }), "more tokens"},
      {"blocks", changed([](request& r) { r.blocks.first = 0, r.blocks.last = 7; }), "more tokens or blocks"},
      {"prompts", changed([](request& r) { r.prompts = 4, r.blocks.first = 0, r.blocks.last = 6; }), "more rows"},
      {"adapters", changed(with_adapters({3, 0b101})), "more rows"},
      {"adapters that overflow", changed(with_adapters({nn::adapter_shape::most_rank, 0b1101111}, {0, 6})), "more rows"},
      {"adapters of a rank that no message has", changed(with_adapters({1U << 31U, 0b1})), ""},
      {"adapters beside a gate", changed(with_adapters({1, 0b0010000})), "adapters beside maps"},
      {"adapters beside no map", changed(with_adapters({1, 0})), "adapters beside maps"},
      {"adapters beside an eighth map", changed(with_adapters({1, 0b10000001})), "adapters beside maps"},
      {"adapters of rank 0", changed(with_adapters({0, 0b1})), "adapters beside maps"},
      {"adapters that do not come", changed(with_adapters({1, 0b1})), "another length"},
      {"bytes", changed([](request& r) { r.x_bytes = 1U << 31U; }), "more bytes"},
      {"fewer bytes than said", [](stranger& s) { s.ask(usual(1), std::vector<std::byte>(40)); }, "another length"},
      {"x longer than the rows", changed([](request& r) { r.x_bytes += 64 * 4, r.sequences = 3; }), "another length"},
      {"a backward without gradient", changed([](request& r) { r.backward = 1; }), ""},
      {"not finite", [](stranger& s) { s.ask(usual(1), rows_for(usual(1), std::numeric_limits<float>::infinity())); },
       "infinity"},
      {"prompts that are not finite", nan_at_the_end([](request& r) { r.prompts = 1; }), "finite"},
      {"adapters that are not finite", nan_at_the_end(with_adapters({1, 0b1})), "finite"},
      {"too many at once",
       [](stranger& s) {
         for (std::uint64_t n = 1; n <= 3; ++n) s.say(usual(n));
       },
       "more requests at once"},
      {"blocks of another model",
       [](stranger& s) {
         s.say(block_wire::announcement{1000, {{5, 9}, 1, 0, 1, 1}, 1});
       },
       "does not have"},
      {"another run",
       [](stranger& s) { s.fabric->locked([&] { s.fabric->post(s.link, block_wire::encode(77, usual(1))); }); },
       "another run"},
      {"nonsense",
       [](stranger& s) { s.fabric->locked([&] { s.fabric->post(s.link, std::vector<std::byte>(20, std::byte{0xEE})); }); },
       ""},
  };
  for (const breach& b : breaches) {
    INFO(b.what);
    with_server([&](sim::process& p, stranger& s) {
      b.act(s);
      p.sleep(2s);
      CHECK(s.downs == 1);
      CHECK_THAT(s.reason, Catch::Matchers::Contains(b.reason));
      CHECK(serves_others(p));
    });
  }
}

TEST_CASE("block_request_handler: who asks and does not send the rows loses its place to others when patience ends",
          "[parallel][fast]") {
  with_server(
      [](sim::process& p, stranger& s) {
        s.say(usual(1));
        s.say(usual(2));
        p.sleep(1s);
        stranger other{p.make_fabric(10)};
        other.ask(usual(1), rows_for(usual(1)));
        CHECK(other.answer(1, 5s) == 0);  // its turn has not come
        CHECK(s.downs == 0);
        p.sleep(15s);
        CHECK(s.downs == 1);
        CHECK_THAT(s.reason, Catch::Matchers::Contains("do not come"));
        CHECK(serves_others(p));
      },
      [](auto& o) { o.most_held = 2, o.patience = 15s; });
}

TEST_CASE("block_request_handler: requests whose rows break off take no place for ever", "[parallel][fast]") {
  with_server([](sim::process& p, stranger& s) {
    for (std::uint64_t n = 1; n <= 6; ++n) {
      s.ask(usual(n), std::vector<std::byte>(10000));  // longer than was said: not received
      p.sleep(1s);
    }
    CHECK(answered(s, usual(7)) == 8 * 16 * 4);
    CHECK(s.downs == 0);
  });
}

TEST_CASE("block_request_handler: a client that goes while it is waited for, or before it is answered, is forgotten",
          "[parallel][fast]") {
  with_server([](sim::process& p, stranger&) {
    for (int i = 0; i < 5; ++i) {
      stranger brief{p.make_fabric(20 + static_cast<net::peer_id>(i))};
      if (i % 2 == 0) brief.say(usual(1));
      if (i % 2 == 1) brief.ask(usual(1), rows_for(usual(1)));
      brief.fabric->locked([&] { brief.fabric->close(brief.link, "that is all"); });
      p.sleep(100ms);
    }
    CHECK(serves_others(p));
  });
}

}  // namespace causeway::parallel
