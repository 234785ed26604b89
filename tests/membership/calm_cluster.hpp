// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_MEMBERSHIP_CALM_CLUSTER_HPP
#define CAUSEWAY_TESTS_MEMBERSHIP_CALM_CLUSTER_HPP

// A cluster of protocols to which only that happens what a test does to it.

#include "membership/cluster.hpp"
#include "membership/nemesis.hpp"
#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace causeway::test {

/// A calm cluster of `n` that has made `rounds` rounds after the one that admits all.
struct calm {
  explicit calm(std::size_t n, std::uint64_t rounds = 1, options o = {}) : c{5, settings(n, std::move(o))} {
    c.restart_after = 0;
    c.training_time = 1;
    start(c, n);
    REQUIRE(c.run_until_true(60, [&] { return c.newest >= 1 + rounds && c.agreed(); }));
  }

  static options settings(std::size_t n, options o) {
    o.run = 9;
    o.expected = static_cast<std::uint32_t>(n);
    o.quota = 100;
    return o;
  }

  host& operator[](std::size_t i) { return *c.hosts[i]; }
  const situation& at(std::size_t i) { return c.hosts[i]->process->now_what(); }
  const commit_record& newest(std::size_t i) { return *c.hosts[i]->process->durable().newest; }
  bool commits(std::uint64_t more, double within) {
    const std::uint64_t goal = c.newest + more;
    const bool done = c.run_until_true(within, [&] { return c.newest >= goal; });
    INFO(c.violation);
    REQUIRE(c.violation.empty());
    return done;
  }
  bool is_member(std::size_t i, std::size_t as_seen_by = 0) { return contains(newest(as_seen_by).members, c.hosts[i]->id); }
  void cut(std::size_t a, std::size_t b) { c.between(a, b).cut = true; }

  cluster c;
};

}  // namespace causeway::test

#endif  // CAUSEWAY_TESTS_MEMBERSHIP_CALM_CLUSTER_HPP
