// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_COLLECTIVE_AGGREGATE_HPP
#define CAUSEWAY_TESTS_COLLECTIVE_AGGREGATE_HPP

// Hands messages to an aggregator, without a network.

#include <causeway/collective/aggregator.hpp>

#include <list>
#include <optional>
#include <utility>
#include <vector>

#include "exchange_cases.hpp"

namespace cases {

template <class Codec>
struct contribution {
  Codec codec{};
  std::vector<causeway::compress::matrix_range> matrices{};
  thread_pool pool{1};
  std::list<std::vector<std::byte>> bytes{};
  std::vector<causeway::collective::peer_message> messages{};
  std::size_t n = 0;
  double total = 0;
  std::vector<float> out{};
  std::vector<float> counts{0};

  explicit contribution(Codec c = {}, std::vector<causeway::compress::matrix_range> m = {})
      : codec{std::move(c)}, matrices{std::move(m)} {}

  [[nodiscard]] message_context context() { return {.pool = pool, .matrices = matrices}; }

  void add(const std::vector<float>& values, float weight) {
    n = values.size();
    bytes.emplace_back(codec.most_bytes(context(), n));
    bytes.back().resize(codec.encode(context(), values, bytes.back()));
    messages.push_back({.peer = static_cast<peer_index>(messages.size()), .weight = weight, .bytes = bytes.back()});
    total += double{weight};
  }

  template <class A>
  std::optional<causeway::collective::refusal> try_combine(const A& aggregator) {
    const message_context ctx = context();
    out.assign(n, 0.0F);
    if (!counts.empty()) counts.assign(n, 0.0F);
    std::vector<float> scratch(A::scratch_rows * n, 777.0F);
    return aggregator.combine(causeway::collective::aggregation<Codec, message_context>{
        codec, ctx, messages, total, static_cast<float>(1 / total), static_cast<std::uint32_t>(messages.size()), out,
        counts, scratch});
  }

  /// The result, where there is one.
  template <class A>
  std::optional<std::vector<float>> combine(const A& aggregator) {
    if (try_combine(aggregator)) return std::nullopt;
    return out;
  }

  /// Who is to blame, and for what.
  template <class A>
  std::pair<std::uint32_t, errc> refused(const A& aggregator) {
    const auto bad = try_combine(aggregator);
    return bad ? std::pair{bad->peer, bad->code} : std::pair{UINT32_MAX, errc{}};
  }
};

}  // namespace cases

#endif  // CAUSEWAY_TESTS_COLLECTIVE_AGGREGATE_HPP
