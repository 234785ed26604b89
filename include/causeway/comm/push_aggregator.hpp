// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_PUSH_AGGREGATOR_HPP
#define CAUSEWAY_COMM_PUSH_AGGREGATOR_HPP

// What several pushes to a hub say together: any aggregator of collective/ over the bytes as they came. Pushes wait as
// bytes, which are shorter than values, and are checked when they are used.

#include <causeway/collective/aggregator.hpp>
#include <causeway/collective/exchange_message.hpp>
#include <causeway/collective/refusal.hpp>
#include <causeway/comm/hub_rules.hpp>
#include <causeway/compress/message.hpp>
#include <causeway/core/clock.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// A push that was not applied yet.
struct waiting_push {
  std::uint32_t client = 0;
  std::uint64_t number = 0;
  std::uint64_t samples = 0;
  std::uint32_t steps = 0;  ///< inner steps in which the samples were trained on
  std::uint32_t wants_answer = 1;
  std::vector<std::uint8_t> bytes{};
  time_point since{};    ///< not part of a checkpoint: after a restart, of the restart
  bool unsound = false;  ///< its values are not finite: it counts for nothing

  void serialize(auto& ar) { ar(client, number, samples, steps, wants_answer, bytes); }
};

struct merged_pushes {
  std::uint32_t pushes = 0;  ///< that count; 0: there is no result
  std::uint64_t samples = 0;
};

class push_aggregator {
 public:
  /// row() ← what the pushes of fragment f say together. `on_bad(push, code)` for each that cannot be used; the others
  /// count. Where each is finite and their sum is not, there is no result.
  template <class OnBad>
  merged_pushes merge(const auto& rules, const hub_terms& terms, std::uint32_t level, std::size_t f,
                      std::span<const waiting_push> batch, OnBad&& on_bad) {
    std::vector<collective::peer_message> messages = weighted(batch);
    row_.resize(terms.cuts[f].size);
    while (!messages.empty()) {
      const auto bad = combine(rules, terms, level, f, messages);
      if (!bad) break;
      if (bad->peer >= batch.size()) return {};
      on_bad(batch[bad->peer], bad->code);
      std::erase_if(messages, [&](const auto& m) { return m.peer == bad->peer; });
    }
    merged_pushes merged{.pushes = static_cast<std::uint32_t>(messages.size())};
    for (const auto& m : messages) merged.samples += batch[m.peer].samples;
    return merged;
  }

  [[nodiscard]] std::span<float> row() noexcept { return row_; }

 private:
  /// n·(n/s) for n samples in s inner steps: quantity times quality, since a larger batch makes a better step (Decoupled
  /// DiLoCo). Relative to the largest, so that equal ones are 1 and exact.
  CAUSEWAY_DECL static std::vector<collective::peer_message> weighted(std::span<const waiting_push> batch);

  /// row_ ← what the aggregator makes of the messages; their peers are places in the batch.
  std::optional<collective::refusal> combine(const auto& rules, const hub_terms& terms, std::uint32_t level, std::size_t f,
                                             std::span<const collective::peer_message> messages) {
    using rules_type = std::remove_cvref_t<decltype(rules)>;
    const compress::message_context about = terms.about(level, f);
    double total = 0;
    for (const auto& m : messages) total += static_cast<double>(m.weight);
    std::fill(row_.begin(), row_.end(), 0.0F);
    scratch_.resize(row_.size() * rules_type::aggregator_type::scratch_rows);
    return rules.aggregator.combine(collective::aggregation<typename rules_type::codec_type, compress::message_context>{
        rules.codec, about, messages, total, static_cast<float>(1 / total), UINT32_MAX, row_, {}, scratch_});
  }

  std::vector<float> row_;
  std::vector<float> scratch_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/comm/impl/push_aggregator.ipp>
#endif

#endif  // CAUSEWAY_COMM_PUSH_AGGREGATOR_HPP
