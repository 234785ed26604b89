// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_RECOVERY_REDUNDANT_HPP
#define CAUSEWAY_STAGE_RECOVERY_REDUNDANT_HPP

// Every peer keeps the stage behind its own up to date, and computes it too when its peer is lost: the redundant state of
// Bamboo (Thorpe et al., NSDI 2023). Not here is Bamboo's redundant forward in the bubbles: the step under way is tried
// again as a whole. The first stage is kept by the second rank, not by the last one as in the paper, so that what a peer
// computes stays one range of blocks.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/stage/layout.hpp>
#include <causeway/stage/recovery.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::stage::recovery {

/// Pipelines of `stages` even stages. A lost peer's neighbour takes its stage over at once, without any block moving. All
/// are laid out anew when a pipeline has lost two neighbours, when spare peers can fill every gap, or when there are enough
/// peers for another pipeline.
///
/// Memory: of parameters and optimizer state twice as much. Bytes: each block's gradient is summed over twice as many.
class redundant {
 public:
  static constexpr std::string_view name = "redundant";
  static constexpr recovery_traits traits{};

  explicit redundant(std::int64_t stages = 2) : stages_{stages}, even_{stages} {}

  /// It does not look back.
  [[nodiscard]] std::uint64_t interval() const noexcept { return 0; }

  result<layout> arrange(const gathering& g) {
    const auto standing = mended(g);
    const bool enough = g.peers.size() / static_cast<std::size_t>(stages_) > (standing ? standing->replicas.size() : 0);
    if (standing && !(enough && g.micro_batches > standing->replicas.size()) && !can_fill(*standing, g)) {
      return with_shadows(*standing);
    }
    auto anew = even_.arrange(g);
    if (anew) return with_shadows(std::move(*anew));
    if (standing) return with_shadows(*standing);  // fewer peers than stages, but each has what it needs
    return anew.error();
  }

 private:
  // The pipelines as they were, with neighbours in the place of who is gone; none if one of them cannot be mended.
  static std::optional<layout> mended(const gathering& g) {
    std::map<std::uint32_t, std::vector<const present_peer*>> rows;
    for (const present_peer& p : g.peers) {
      if (p.computes.size() > 0) rows[p.replica].push_back(&p);
    }
    layout made;
    for (auto& [number, row] : rows) {
      std::sort(row.begin(), row.end(), [](auto* a, auto* b) { return a->computes.first < b->computes.first; });
      auto seats = mended(row, g.layers);
      if (!seats) return std::nullopt;
      made.replicas.push_back({std::move(*seats), 0});
    }
    if (made.replicas.empty()) return std::nullopt;
    const auto shares = even_shares(g.micro_batches, made.replicas.size());
    for (std::size_t r = 0; r < shares.size(); ++r) made.replicas[r].micro_batches = shares[r];
    return made;
  }

  static std::optional<std::vector<seat>> mended(const std::vector<const present_peer*>& row, std::int64_t layers) {
    std::vector<seat> seats;
    for (const present_peer* p : row) seats.push_back({p->id, p->computes});
    seats.front().computes.first = 0;
    for (std::size_t i = 0; i < seats.size(); ++i) {
      seats[i].computes.last = i + 1 < seats.size() ? seats[i + 1].computes.first : layers;
      if (seats[i].computes.size() < 1 || !row[i]->holds_all(seats[i].computes)) return std::nullopt;
    }
    return seats;
  }

  // Whether whole pipelines can be made of as many as there are, where now peers do two stages.
  [[nodiscard]] bool can_fill(const layout& standing, const gathering& g) const {
    std::size_t seats = 0;
    for (const replica& r : standing.replicas) seats += r.seats.size();
    const std::size_t whole = standing.replicas.size() * static_cast<std::size_t>(stages_);
    return seats < whole && g.peers.size() >= whole;
  }

  static layout with_shadows(layout l) {
    for (replica& r : l.replicas) {
      for (std::size_t s = 0; s < r.seats.size(); ++s) {
        const std::int64_t first = s == 1 ? 0 : r.seats[s].computes.first;
        const std::size_t next = std::min(s + 1, r.seats.size() - 1);
        r.seats[s].keeps = {{first, r.seats[next].computes.last}};
      }
    }
    return l;
  }

  std::int64_t stages_;
  regroup even_;
};
static_assert(Recovery<redundant>);

}  // namespace causeway::inline CAUSEWAY_ABI::stage::recovery

#endif  // CAUSEWAY_STAGE_RECOVERY_REDUNDANT_HPP
