// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_FRAGMENT_ROWS_HPP
#define CAUSEWAY_COMM_FRAGMENT_ROWS_HPP

// A fragment of a vector as one row, wherever its parts lie: opened, worked on, put back. The arithmetic is the context's.

#include <causeway/core/result.hpp>
#include <causeway/tensor/buffer.hpp>

#include <cstddef>
#include <span>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// The front of working memory. It never gets smaller: what grows is cleared, by the host.
inline std::span<float> room(source_vector<float>& scratch, std::size_t size) {
  if (scratch.size() < size) scratch.resize(size);
  return std::span{scratch}.first(size);
}

/// local ← row where counts are not 0.
result<void> take_over(const auto& rows, std::span<float> local, std::span<const float> row,
                       std::span<const float> counts) {
  if constexpr (requires { rows.take_over(local, row, counts); }) {
    if (rows.there(local, row, counts)) return rows.take_over(local, row, counts);
  }
  for (std::size_t i = 0; i < local.size(); ++i) local[i] = counts[i] != 0 ? row[i] : local[i];
  return {};
}

/// The fragment `s` of `all` as one row: where it lies, or gathered into `scratch`.
result<std::span<float>> opened(auto& ctx, const auto& s, std::span<float> all, source_vector<float>& scratch) {
  if (s.cut->is_whole(all.size())) return all;
  const auto row = room(scratch, s.size());
  CAUSEWAY_TRY(ctx.rows().gather(s.cut->ranges, all, row));
  return row;
}

/// The row back to where it was gathered from.
result<void> put_back(auto& ctx, const auto& s, std::span<const float> row, std::span<float> all) {
  return s.cut->is_whole(all.size()) ? result<void>{} : ctx.rows().scatter(s.cut->ranges, row, all);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_FRAGMENT_ROWS_HPP
