// SPDX-License-Identifier: Apache-2.0
#include <causeway/sim/links.hpp>

#include "support/catch.hpp"

using namespace causeway;
using namespace causeway::sim;
using namespace std::chrono_literals;

namespace {

link_options with_latency(duration d) {
  link_options o;
  o.latency = d;
  return o;
}

}  // namespace

TEST_CASE("links: the most specific rule holds, whatever the order", "[sim][fast]") {
  sim::detail::link_map links{with_latency(1ms)};
  for (const std::uint32_t region : {0U, 0U, 1U}) links.add_host(region);
  CHECK(links.between(0, 2).options.latency == 1ms);
  links.set_region(0, 1, with_latency(40ms));  // also for lines that exist
  CHECK(links.between(0, 2).options.latency == 40ms);
  CHECK(links.between(1, 2).options.latency == 40ms);
  CHECK(links.between(2, 0).options.latency == 1ms);  // one direction
  links.set(0, 2, with_latency(7ms));
  links.set_region(0, 1, with_latency(50ms));
  CHECK(links.between(0, 2).options.latency == 7ms);
  CHECK(links.between(1, 2).options.latency == 50ms);
}

TEST_CASE("links: every change of options is a new version", "[sim][fast]") {
  sim::detail::link_map links{{}};
  links.add_host(0);
  links.add_host(0);
  std::uint64_t last = links.version();
  const auto grew = [&] { return std::exchange(last, links.version()) < links.version(); };
  links.set(0, 1, with_latency(2ms));
  CHECK(grew());
  links.set_region(0, 0, {});
  CHECK(grew());
  links.slow(0, 1, 5);
  CHECK(grew());
}

TEST_CASE("links: a connection is capped by the line, a slowdown, and losses", "[sim][fast]") {
  sim::detail::link there;
  sim::detail::link back;
  there.options = with_latency(30ms);
  back.options = with_latency(20ms);
  CHECK(sim::detail::connection_cap(there, back) == unlimited);
  there.options.bytes_per_s = 1e6;
  CHECK(sim::detail::connection_cap(there, back) == 1e6);
  there.options.loss = 0.01;  // Mathis: 1.22 · 1460 / (0.05 · 0.1) = 356 240 bytes/s
  CHECK(sim::detail::connection_cap(there, back) == Approx(356240));
  there.options.streams = 2;
  CHECK(sim::detail::connection_cap(there, back) == Approx(712480));
  there.slowed_to = 1;
  CHECK(sim::detail::connection_cap(there, back) == 1);
}

TEST_CASE("links: transfer times are exact to the nanosecond", "[sim][fast]") {
  CHECK(sim::detail::transfer_time(125e6, 125e6) == 1s);
  CHECK(sim::detail::transfer_time(1, 3) == 333333333ns);
  CHECK(sim::detail::transfer_time(1e12, unlimited) == 0ns);
}
