// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/rendezvous.hpp>

#include "support/catch.hpp"
#include "support/tcp_peers.hpp"

#include <atomic>
#include <cstddef>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace support;

namespace {

const message_id talk{.channel = 1, .epoch = 0, .step = 5, .parent = 9};

/// Joins in a thread of its own.
struct joiner {
  explicit joiner(const endpoint& at, const rendezvous_options& options)
      : thread{[this, at, options] { outcome.emplace(join(at, options)); }} {}
  result<membership>& get() {
    if (thread.joinable()) thread.join();
    return *outcome;
  }
  ~joiner() {
    if (thread.joinable()) thread.join();
  }
  std::optional<result<membership>> outcome;
  std::thread thread;
};

}  // namespace

TEST_CASE("rendezvous: four peers meet, get the welcome, and talk", "[net][fast]") {
  auto listening = open_listener({});
  REQUIRE(listening);
  const endpoint at = listening->address();
  CHECK(at.port != 0);
  auto options = test_options();
  auto anybody = test_options();
  anybody.run_id = 0;  // whichever run is served there
  joiner a{at, options};
  joiner b{at, anybody};
  joiner c{at, options};
  const auto welcome = pattern(max_welcome_bytes, 1);
  auto hosted = host(std::move(*listening), 4, welcome, options);
  REQUIRE(hosted);
  CHECK(hosted->transport.self() == 0);
  CHECK(hosted->addresses.size() == 4);
  CHECK(hosted->addresses[0] == at);
  unsigned seen = 1;
  const auto sent = pattern(1000, 2);
  for (joiner* j : {&a, &b, &c}) {
    REQUIRE(j->get());
    membership& m = **j->outcome;
    CHECK(m.run_id == test_run);
    CHECK((m.welcome == welcome));
    CHECK(m.addresses == hosted->addresses);
    CHECK(m.transport.size() == 4);
    seen |= 1U << m.transport.self();
    std::vector<std::byte> got(1000);
    REQUIRE(hosted->transport.wait(hosted->transport.send(m.transport.self(), talk, sent), soon()));
    REQUIRE(m.transport.wait(m.transport.receive(0, talk, got), soon()));
    CHECK((got == sent));
  }
  CHECK(seen == 0xFU);
}

TEST_CASE("rendezvous: a run of one needs nobody", "[net][fast]") {
  auto alone = host(*open_listener({}), 1, {}, test_options());
  REQUIRE(alone);
  CHECK(alone->transport.size() == 1);
}

TEST_CASE("rendezvous: a resumed peer gets its index back", "[net][fast]") {
  auto listening = open_listener({});
  const endpoint at = listening->address();
  auto two = test_options();
  two.wanted_index = 2;
  auto host_options = test_options();
  host_options.wanted_index = 1;  // the first host is gone; another peer hosts now
  auto zero = test_options();
  zero.wanted_index = 0;
  joiner a{at, two};
  joiner b{at, zero};
  auto hosted = host(std::move(*listening), 3, {}, host_options);
  REQUIRE(hosted);
  CHECK(hosted->transport.self() == 1);
  REQUIRE(a.get());
  CHECK((*a.outcome)->transport.self() == 2);
  REQUIRE(b.get());
  CHECK((*b.outcome)->transport.self() == 0);
}

TEST_CASE("rendezvous: what cannot work is refused before anybody waits", "[net][fast]") {
  auto options = test_options();
  CHECK(host(*open_listener({}), 0, {}, options).error().code == errc::invalid_argument);
  CHECK(host(*open_listener({}), 100'000, {}, options).error().code == errc::invalid_argument);
  CHECK(host(*open_listener({}), 2, pattern(max_welcome_bytes + 1, 1), options).error().code == errc::too_large);
  options.wanted_index = 2;
  CHECK(host(*open_listener({}), 2, {}, options).error().code == errc::invalid_argument);
  options.wanted_index.reset();
  options.run_id = 0;
  CHECK(host(*open_listener({}), 2, {}, options).error().code == errc::invalid_argument);
  CHECK(connect_static(3, {endpoint{}, endpoint{}}, test_options()).error().code == errc::invalid_argument);
}
