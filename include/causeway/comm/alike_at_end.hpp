// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_ALIKE_AT_END_HPP
#define CAUSEWAY_COMM_ALIKE_AT_END_HPP

// The last exchange of a run in which comm::rounds exchanges parameters among peers that come and go: their mean over all,
// whatever was due, so that all end alike.

#include <causeway/axis/fragments.hpp>
#include <causeway/compress/none.hpp>
#include <causeway/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// Of one policy, whose `Core` is given to each call: `updates` holds the parameters of this peer, then their mean.
template <class Core>
struct alike_at_end {
  using state = typename Core::state;

  /// One, or where rows are of single blocks one for each.
  [[nodiscard]] static std::size_t rows_of(const Core& c) noexcept {
    return c.cuts.front().block == axis::fragment::any_block ? 1 : c.cuts.size();
  }

  static result<void> mean_of_all(auto& ctx, Core& c) {
    for (state& s : c.states) s.cancel();
    auto& mean = c.rows.updates();
    const std::uint64_t part = c.first_part + c.states.size();
    if (rows_of(c) > 1) return mean_of_blocks(ctx, c, part);
    if (ctx.entry().keeps_rows()) return ctx.left_exchange(mean);  // it is there, of several rows
    return mean_of(ctx, c, mean, part, c.cuts.front().block);
  }

  /// It goes through: all that is kept of parameters is that mean.
  static result<void> take(auto& ctx, Core& c) {
    auto& mean = c.rows.updates();
    CAUSEWAY_TRY(ctx.rows().copy(ctx.parameters(), mean));
    if (!c.rows.means().empty()) CAUSEWAY_TRY(ctx.rows().copy(c.rows.means().front(), mean));
    if constexpr (Core::content_type::anchored) CAUSEWAY_TRY(ctx.rows().copy(c.rows.anchor(), mean));
    mean.clear();
    ctx.parameters_changed();
    return {};
  }

 private:
  // Where a policy divides batches, by the samples since the last one of those who compute the row.
  static result<void> mean_of(auto& ctx, Core& c, std::span<float> row, std::uint64_t part, std::size_t block) {
    const auto* const among = ctx.entry().holders_of(block);
    if (!ctx.contribution().divides_batches() || ctx.result_is_known()) return ctx.mean(compress::none{}, row, part, among);
    const state& one = c.states.front();
    const bool computes = among == nullptr || among->weight_of(ctx.self()) > 0;
    const std::uint64_t own = computes ? one.samples + (one.pending ? one.behind : 0) : 0;
    CAUSEWAY_ASSIGN(const auto told, ctx.told_samples(own, part, among));
    return ctx.mean(compress::none{}, row, part, &told);
  }

  // Each among its holders.
  static result<void> mean_of_blocks(auto& ctx, Core& c, std::uint64_t part) {
    auto& row = c.states.front().row;
    for (const axis::fragment& f : c.cuts) {
      row.resize(f.size);
      CAUSEWAY_TRY(ctx.rows().gather(f.ranges, c.rows.updates(), row));
      const bool is_there = row.empty() || ctx.entry().keeps_rows();
      const result<void> left = is_there ? ctx.left_exchange(row) : mean_of(ctx, c, row, part, f.block);
      CAUSEWAY_TRY(ctx.rows().scatter(f.ranges, row, c.rows.updates()));  // also where others vote without this peer
      CAUSEWAY_TRY(left);
      ++part;
    }
    return {};
  }
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_ALIKE_AT_END_HPP
