// SPDX-License-Identifier: Apache-2.0
#include <causeway/sim/network.hpp>

#include <memory>
#include <string>
#include <vector>

#include "cluster.hpp"
#include "support/catch.hpp"

using namespace cluster;
using sim::detail::content;
using sim::detail::end_ref;
using sim::detail::sent_message;
using sim::detail::sent_message_ptr;

namespace {

/// Sockets without a fabric: writes down what it is told.
struct recorder final : sim::detail::socket_owner {
  explicit recorder(sim::scheduler& of) : events{of} {}

  void on_connected(end_ref e, std::uint64_t tag) override {
    end = e;
    note("connected " + std::to_string(tag));
  }
  void on_refused(std::uint64_t tag, const error& why) override {
    REQUIRE(why.code == errc::unreachable);
    note("refused " + std::to_string(tag));
  }
  void on_message(end_ref e, sent_message_ptr message) override {
    end = e;
    note(text_of(message->bytes));
  }
  void on_closed(end_ref, const error& why) override {
    REQUIRE(why.code == errc::peer_lost);
    note("closed: " + why.message);
  }
  void on_sent(end_ref, std::uint32_t operation) override { note("sent " + std::to_string(operation)); }

  void note(std::string what) {
    lines.push_back(std::move(what));
    times.push_back(events.now().since_start);
  }

  sim::scheduler& events;
  end_ref end;
  std::vector<std::string> lines;
  std::vector<duration> times;
};

struct two_hosts {
  explicit two_hosts(sim::world_options o = exact(10ms)) : options{o}, net{options, events}, a{events}, b{events} {
    for (const char* name : {"a", "b"}) {
      sim::host_options h;
      h.name = name;
      net.add_host(h);
    }
    net.listen(1, 1, &b);
  }
  void run() {
    while (!events.empty()) events.run_next();
  }
  void run_until(duration when) {
    while (events.next_time() <= at(when)) events.run_next();
    events.advance_to(at(when));
  }
  void connect() {
    net.dial(0, &a, 5, 1, 1);
    run();
    REQUIRE(a.lines.back() == "connected 5");
    say(a.end, "hello");
    run();
    REQUIRE(b.lines.back() == "hello");
    a.lines.clear();
    b.lines.clear();
    b.times.clear();
    start = events.now().since_start;
  }
  void say(end_ref from, const std::string& what, std::uint32_t operation = UINT32_MAX) {
    auto message = sent_message_ptr{new sent_message};
    message->bytes = bytes_of(what);
    message->operation = operation;
    net.send(from, std::move(message));
  }

  sim::world_options options;
  sim::scheduler events;
  sim::detail::network net;
  recorder a;
  recorder b;
  duration start{0};
};

using lines = std::vector<std::string>;

}  // namespace

TEST_CASE("network: a dial stands after one round trip and the delay of the options", "[sim][fast]") {
  auto options = exact(10ms);
  SECTION("none") {}
  SECTION("1 to 11 ms") {
    options.connect_delay_min = 1ms;
    options.connect_delay_max = 11ms;
  }
  two_hosts t{options};
  t.net.dial(0, &t.a, 5, 1, 1);
  t.run();
  CHECK(t.a.lines == lines{"connected 5"});
  CHECK(t.a.times[0] >= 20ms + options.connect_delay_min);
  CHECK(t.a.times[0] <= 20ms + options.connect_delay_max);
  CHECK(t.events.now().since_start == t.a.times[0]);  // no timer stays behind
}

TEST_CASE("network: a port that nobody listens on refuses after one round trip", "[sim][fast]") {
  two_hosts t;
  t.net.dial(0, &t.a, 6, 1, 2);
  t.run();
  CHECK(t.a.lines == lines{"refused 6"});
  CHECK(t.a.times[0] == 20ms);
}

TEST_CASE("network: a dial into a black hole tries again, and gives up after its time", "[sim][fast]") {
  const bool to_target = GENERATE(true, false);
  two_hosts t;
  t.net.block(to_target ? 0 : 1, to_target ? 1 : 0);
  t.net.dial(0, &t.a, 7, 1, 1);
  SECTION("for ever") {
    t.run();
    CHECK(t.a.lines == lines{"refused 7"});
    CHECK(t.a.times[0] == 10s);
  }
  SECTION("for two seconds") {
    t.run_until(2s);
    CHECK(t.a.lines.empty());
    t.net.unblock(to_target ? 0 : 1, to_target ? 1 : 0);
    t.run();
    CHECK(t.a.lines == lines{"connected 7"});
    CHECK(t.a.times[0] == 3s + 20ms);
  }
}

TEST_CASE("network: a dial that is called off says nothing", "[sim][fast]") {
  two_hosts t;
  t.net.cancel_dial(t.net.dial(0, &t.a, 7, 1, 1));
  t.run();
  CHECK(t.a.lines.empty());
  CHECK(t.net.wires().open_connections() == 0);
}

TEST_CASE("network: after a goodbye what was sent before arrives, then the end", "[sim][fast]") {
  two_hosts t;
  t.connect();
  t.say(t.a.end, "one", 3);
  t.say(t.a.end, "two");
  t.net.close(t.a.end, "enough", true);
  t.say(t.a.end, "never");
  t.run();
  CHECK(t.a.lines == lines{"sent 3"});
  CHECK(t.b.lines == lines{"one", "two", "closed: enough"});
  CHECK(t.net.wires().open_connections() == 0);
}

TEST_CASE("network: a reset loses what is on its way, both ways, and is known after one latency", "[sim][fast]") {
  two_hosts t;
  t.connect();
  t.say(t.a.end, "one");
  t.say(t.b.end, "back");
  t.run_until(t.start + 5ms);
  t.net.close(t.a.end, "broken", false);
  t.say(t.b.end, "into nothing");
  t.run();
  CHECK(t.a.lines.empty());
  CHECK(t.b.lines == lines{"closed: broken"});
  CHECK(t.b.times.back() == t.start + 15ms);
  CHECK(t.net.wires().open_connections() == 0);
}

TEST_CASE("network: the news of an end waits behind a black hole", "[sim][fast]") {
  const bool goodbye = GENERATE(true, false);
  two_hosts t;
  t.connect();
  t.net.block(0, 1);
  t.net.close(t.a.end, "gone", goodbye);
  t.run_until(60s);
  CHECK(t.b.lines.empty());
  t.net.unblock(0, 1);
  t.run();
  CHECK(t.b.lines == lines{"closed: gone"});
  CHECK(t.b.times.back() <= 60s + 1s + 10ms);
  CHECK(t.net.wires().open_connections() == 0);
}

TEST_CASE("network: blocks count", "[sim][fast]") {
  two_hosts t;
  t.connect();
  t.net.block(0, 1);
  t.net.block(0, 1);
  t.say(t.a.end, "one");
  t.run();
  t.net.unblock(0, 1);
  t.run();
  CHECK(t.b.lines.empty());
  t.net.unblock(0, 1);
  t.net.unblock(0, 1);  // more than were blocked: nothing
  t.run();
  CHECK(t.b.lines == lines{"one"});
}

TEST_CASE("network: a host without power answers nothing; started again, it resets", "[sim][fast]") {
  two_hosts t;
  t.connect();
  t.net.power_off(1);
  t.say(t.a.end, "anybody?");
  t.net.dial(0, &t.a, 9, 1, 1);
  t.run();
  CHECK(t.a.lines == lines{"refused 9"});
  CHECK(t.a.times.back() >= 10s);
  t.net.power_on(1);
  t.run();
  REQUIRE(t.a.lines.size() == 2);
  CHECK(t.a.lines[1].substr(0, 7) == "closed:");
  CHECK(t.b.lines.empty());
  CHECK(t.net.wires().open_connections() == 0);
}

TEST_CASE("network: dropping an owner ends its connections, dials and ports", "[sim][fast]") {
  two_hosts t;
  t.connect();
  t.net.dial(1, &t.b, 4, 0, 1);
  t.net.drop(&t.b, 1, "over", false);
  t.run();
  CHECK(t.a.lines == lines{"closed: over"});
  CHECK(t.b.lines.empty());
  t.net.dial(0, &t.a, 5, 1, 1);
  t.run();
  CHECK(t.a.lines.back() == "refused 5");
}

TEST_CASE("network: a stopped host takes in a socket buffer, and hands it over in order", "[sim][fast]") {
  auto options = exact(10ms);
  options.socket_buffer = 1 << 20;
  two_hosts t{options};
  t.connect();
  t.net.wires().freeze(1);
  for (std::uint32_t i = 0; i < 30; ++i) t.say(t.a.end, std::string(200000, static_cast<char>('a' + i)), i);
  t.run();
  // 1 MiB in the buffer and a window on the way; the rest waits at the sender.
  const std::uint64_t window = t.net.wires().find(t.a.end)->flows[0].window;
  CHECK(window > 0);
  CHECK(t.a.lines.size() >= (1U << 20U) / 200000);
  CHECK(t.a.lines.size() <= ((1U << 20U) + window) / 200000 + 1);
  CHECK(t.a.lines.size() < 30);
  CHECK(t.b.lines.empty());
  t.net.wires().thaw(1);
  t.run();
  CHECK(t.a.lines.size() == 30);
  REQUIRE(t.b.lines.size() == 30);
  for (std::size_t i = 0; i < 30; ++i) CHECK(t.b.lines[i] == std::string(200000, static_cast<char>('a' + i)));
}
