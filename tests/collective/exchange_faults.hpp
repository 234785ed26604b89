// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_COLLECTIVE_EXCHANGE_FAULTS_HPP
#define CAUSEWAY_TESTS_COLLECTIVE_EXCHANGE_FAULTS_HPP

// What every exchange must do, whatever its topology.

#include <causeway/collective/all_reduce.hpp>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "exchange_cases.hpp"
#include "support/catch.hpp"

namespace cases {

/// Makes an exchange of type E, unless the test gives a way to make one.
template <class E>
struct default_made {
  E operator()(std::uint32_t) const { return E{}; }
};

/// Rounds of `size` peers end with the weighted mean, and the same bits everywhere.
template <class E, class Make = default_made<E>>
void check_mean(std::uint32_t size, std::size_t count, const std::vector<float>& weights, double tolerance = 1e-5,
                const Make& make = {}) {
  std::vector<std::vector<float>> inputs(size), results(size);
  for (std::uint32_t p = 0; p < size; ++p) inputs[p] = whole_values(p, count);
  const memory_network network{size};
  const auto outcomes = run_sides(network, [&](side& s) -> causeway::result<void> {
    E exchange = make(s.self);
    for (std::uint64_t round = 0; round < 2; ++round) {
      results[s.self] = inputs[s.self];
      const exchange_row row{.values = results[s.self], .weight = weights[s.self]};
      CAUSEWAY_TRY(run_exchange(exchange, s.port(round), row, s.ctx));
    }
    return {};
  });
  for (const auto& outcome : outcomes) {
    if (!outcome) FAIL_CHECK(outcome.error().text());
  }
  REQUIRE(all_succeeded(outcomes));
  CHECK(largest_difference(results[0], reference_mean(inputs, weights)) <= tolerance);
  for (std::uint32_t p = 1; p < size; ++p) CHECK(same_bits(results[0], results[p]));
}

template <class E, class Make = default_made<E>>
void check_all_refuse(std::uint32_t size, const std::vector<float>& weights, errc code, const Make& make = {}) {
  const memory_network network{size};
  const auto outcomes = run_sides(network, [&](side& s) -> causeway::result<void> {
    E exchange = make(s.self);
    std::vector<float> values(20, 1.0F);
    const auto refused = run_exchange(exchange, s.port(1), {.values = values, .weight = weights[s.self]}, s.ctx);
    values.assign(20, 1.0F);
    CAUSEWAY_TRY(run_exchange(exchange, s.port(2), {.values = values}, s.ctx));  // as good as new
    return refused;
  });
  for (const auto& outcome : outcomes) {
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == code);
  }
}

/// Peer 1 of 4 has NaN, in the first value, a middle one or the last: everybody hears of it.
template <class E, class Make = default_made<E>>
void check_not_finite(const std::string& named, const Make& make = {}) {
  const memory_network network{4};
  std::vector<std::string> said(4);
  const auto outcomes = run_sides(network, [&](side& s) -> causeway::result<void> {
    E exchange = make(s.self);
    std::uint64_t step = 0;
    for (const std::size_t at : {0U, 21U, 39U}) {
      std::vector<float> values = whole_values(s.self, 40);
      if (s.self == 1) values[at] = std::numeric_limits<float>::quiet_NaN();
      const auto refused = run_exchange(exchange, s.port(++step), {.values = values}, s.ctx);
      said[s.self] += refused ? "ok;" : std::string{to_string(refused.error().code)} + " " + refused.error().where + ";";
    }
    std::vector<float> values = whole_values(s.self, 40);
    return run_exchange(exchange, s.port(++step), {.values = values}, s.ctx);
  });
  CHECK(all_succeeded(outcomes));
  const std::string once = "non_finite " + named + ";";
  for (const std::string& lines : said) CHECK(lines == once + once + once);
}

/// All peers hold `value`, whose sum is too large to be sent: everybody refuses, and nobody is named.
template <class E, class Make = default_made<E>>
void check_nobodys_fault(std::uint32_t size, float value, const Make& make = {}) {
  const memory_network network{size};
  const auto outcomes = run_sides(network, [&](side& s) -> causeway::result<void> {
    std::vector<float> values(12, value);
    E exchange = make(s.self);
    return run_exchange(exchange, s.port(), {.values = values}, s.ctx);
  });
  for (const auto& outcome : outcomes) {
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == errc::non_finite);
    CHECK(outcome.error().where == "all-reduce");
    CHECK(outcome.error().culprit == causeway::error::nobody);
  }
}

/// A peer that says that its own values must not be used is believed by all.
template <class E, class Make = default_made<E>>
void check_refuses_itself(const Make& make = {}) {
  const memory_network network{3};
  const auto outcomes = run_sides(network, [&](side& s) -> causeway::result<void> {
    E exchange = make(s.self);
    std::vector<float> values = whole_values(s.self, 40);
    const exchange_row row{.values = values, .refused = s.self == 2 ? errc::non_finite : errc{}};
    return run_exchange(exchange, s.port(), row, s.ctx);
  });
  for (const auto& outcome : outcomes) {
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == errc::non_finite);
    CHECK(outcome.error().where == "peer 2");
  }
}

/// A conversation that is given up half-way leaves nothing under way, and the object as good as new.
template <class E, class Make = default_made<E>>
void check_cancel(const Make& make = {}) {
  const memory_network network{3};
  const auto outcomes = run_sides(network, [&](side& s) -> causeway::result<void> {
    E exchange = make(s.self);
    for (const bool turned : {false, true}) {
      std::vector<float> values = whole_values(s.self, 40);
      const exchange_row row{.values = values};
      const std::uint64_t step = turned ? 3 : 1;
      CAUSEWAY_TRY(exchange.begin(s.port(step), row, s.ctx));
      if (turned) CAUSEWAY_TRY(exchange.turn(s.port(step), row, s.ctx));
      exchange.cancel();
      CAUSEWAY_TRY(run_exchange(exchange, s.port(step + 1), row, s.ctx));
    }
    return {};
  });
  for (const auto& outcome : outcomes) {
    if (!outcome) FAIL_CHECK(outcome.error().text());
  }
}

/// Payload bytes that each peer sends in one round.
template <class E, class Make = default_made<E>>
void check_bytes(std::uint32_t size, std::size_t count, const std::vector<float>& weights,
                 const std::vector<std::uint64_t>& expected, const Make& make = {}) {
  const memory_network network{size, {.header_bytes = 0}};
  std::vector<std::uint64_t> sent(size);
  const auto outcomes = run_sides(network, [&](side& s) -> causeway::result<void> {
    E exchange = make(s.self);
    std::vector<float> values = whole_values(s.self, count);
    CAUSEWAY_TRY(run_exchange(exchange, s.port(), {.values = values, .weight = weights[s.self]}, s.ctx));
    sent[s.self] = s.net.stats().bytes_sent;
    return {};
  });
  CHECK(all_succeeded(outcomes));
  CHECK(sent == expected);
}

/// Two exchanges at once, begun, turned and finished in turns.
template <class E, class Make = default_made<E>>
void check_overlap(const Make& make = {}) {
  const std::uint32_t size = 4;
  std::vector<std::vector<float>> a(size), b(size), in_a(size), in_b(size);
  const memory_network network{size};
  const auto outcomes = run_sides(network, [&](side& s) -> causeway::result<void> {
    E first = make(s.self), second = make(s.self);
    in_a[s.self] = a[s.self] = whole_values(s.self, 300);
    in_b[s.self] = b[s.self] = whole_values(s.self + 9, 200);
    const exchange_row row_a{.values = a[s.self]}, row_b{.values = b[s.self], .weight = static_cast<float>(s.self + 1)};
    const exchange_port port_a = s.port(7, 32), port_b = s.port(7, 48);
    CAUSEWAY_TRY(first.begin(port_a, row_a, s.ctx));
    CAUSEWAY_TRY(second.begin(port_b, row_b, s.ctx));
    CAUSEWAY_TRY(first.turn(port_a, row_a, s.ctx));
    E moved = std::move(second);  // a policy that moves takes its exchanges along
    CAUSEWAY_TRY(moved.turn(port_b, row_b, s.ctx));
    CAUSEWAY_TRY(moved.finish(port_b, row_b, s.ctx));
    return first.finish(port_a, row_a, s.ctx);
  });
  REQUIRE(all_succeeded(outcomes));
  CHECK(largest_difference(a[0], reference_mean(in_a, {1, 1, 1, 1})) < 1e-5);
  CHECK(largest_difference(b[0], reference_mean(in_b, {1, 2, 3, 4})) < 1e-5);
  for (std::uint32_t p = 1; p < size; ++p) CHECK((same_bits(a[0], a[p]) && same_bits(b[0], b[p])));
}

/// The last of `size` peers dies at each of its operations in turn. The others must not hang: they get the result, or an
/// error that names the one that is gone, or one that gave up because of it. Afterwards the same objects average without
/// it.
template <class E, class Make = default_made<E>>
void check_peer_lost(std::uint32_t size, const Make& make = {}) {
  for (std::uint64_t nth = 0;; ++nth) {
    CAPTURE(nth);
    const memory_network network{size}, after{size};
    network.kill_at(size - 1, nth);
    std::vector<std::string> complaints(size);
    std::vector<std::optional<side>> later(size);
    for (peer_index p = 0; p < size; ++p) later[p].emplace(any_transport{after.transport(p)});
    const auto outcomes = run_sides(network, [&](side& s) -> causeway::result<void> {
      E exchange = make(s.self);
      std::vector<float> values = whole_values(s.self, 64);
      const auto outcome = run_exchange(exchange, s.port(), {.values = values}, s.ctx);
      if (!outcome) complaints[s.self] = std::string{to_string(outcome.error().code)} + " " + outcome.error().where;
      if (!outcome) network.kill(s.self);  // as the end of the whole group would: those who wait for us must not
      values = whole_values(s.self, 64);
      return run_exchange(exchange, later[s.self]->port(), {.values = values}, later[s.self]->ctx);
    });
    CHECK(all_succeeded(outcomes));
    if (network.operations(size - 1) <= nth) break;  // it lived
    CHECK(std::any_of(complaints.begin(), complaints.end(), [](const std::string& c) { return !c.empty(); }));
    for (const std::string& c : complaints) CHECK((c.empty() || c.rfind("peer_lost peer ", 0) == 0));
  }
}

}  // namespace cases

#endif  // CAUSEWAY_TESTS_COLLECTIVE_EXCHANGE_FAULTS_HPP
