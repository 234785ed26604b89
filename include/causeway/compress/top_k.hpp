// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMPRESS_TOP_K_HPP
#define CAUSEWAY_COMPRESS_TOP_K_HPP

// The k values of largest magnitude of each chunk (DeMo: Peng et al., 2024; SparseLoCo: Sarfi et al., 2025). How many a
// chunk sends depends on its size alone, so all messages of a row are equally long, and chunks are written and read
// independently of each other.

#include <causeway/compress/bit_stream.hpp>
#include <causeway/compress/chunks.hpp>
#include <causeway/compress/index_set.hpp>
#include <causeway/compress/sparsifier.hpp>
#include <causeway/compress/top_selection.hpp>
#include <causeway/kernels/cpu_features.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress {

struct top_k_options {
  std::uint32_t k = 64;  ///< values kept of every chunk, however small; all of one that has no more
  chunking chunks{};
  index_form indices = index_form::smallest;

  void serialize(auto& ar) { ar(k, chunks, indices); }
};

/// errc::invalid_argument when the options cannot work.
inline result<void> validate(const top_k_options& o) {
  CAUSEWAY_TRY(validate(o.chunks));
  if (o.k >= 1 && o.indices <= index_form::smallest) return {};
  return fail(errc::invalid_argument, "top_k", std::to_string(o.k) + " values of each chunk; take at least one");
}

/// Sparsifier: the largest magnitudes of each chunk, ties to the lowest index; NaN counts as larger than infinity. A
/// chunk's k' indices are below its size s: k' · ceil(log2 s) bits when packed (12 bits each for tiles of 64 by 64), 8 bits
/// each for 64 of 4096 with `smallest`. Chunks of one grid lie together, padded to a byte. A contraction: of a chunk's |x|²
/// at most 1 - k' / s is lost, and so of all orthonormal coefficients; a quantiser that loses q of what is chosen makes it
/// 1 - (1 - q) · k' / s.
class top_k {
 public:
  static constexpr std::string_view name = "top_k";
  static constexpr bool shared_support = false;
  static constexpr bool exact_count = true;

  top_k() : top_k{top_k_options{}} {}
  explicit top_k(const top_k_options& options) : options_{options} { CAUSEWAY_EXPECT(validate(options)); }

  [[nodiscard]] const top_k_options& options() const noexcept { return options_; }

  /// Values that a chunk of `size` values keeps.
  [[nodiscard]] std::uint32_t kept_of(std::uint32_t size) const noexcept { return std::min(options_.k, size); }

  [[nodiscard]] std::size_t most_kept(const message_context& ctx, std::size_t n) const {
    std::size_t kept = 0;
    for (const chunk_grid& grid : grids(ctx, n)) kept += grid.count() * kept_of(grid.size());
    return kept;
  }
  [[nodiscard]] std::size_t most_bytes(const message_context& ctx, std::size_t n) const {
    std::size_t bytes = 0;
    for (const chunk_grid& grid : grids(ctx, n)) bytes += bytes_of_bits(grid.count() * layout(grid).bits);
    return bytes;
  }

  /// How a row is cut, and how the indices of one of a grid's chunks are written.
  [[nodiscard]] std::vector<chunk_grid> grids(const message_context& ctx, std::size_t n) const {
    detail::expect_row_size(n);
    return cut_into_chunks(options_.chunks, ctx.matrices, n);
  }
  [[nodiscard]] index_layout layout(const chunk_grid& grid) const {
    return layout_of(options_.indices, kept_of(grid.size()), grid.size());
  }

  std::size_t select(const message_context& ctx, std::span<const float> values, std::vector<std::uint32_t>& kept,
                     std::span<std::byte> room, kernels::simd_level level = kernels::detect_simd_level()) const {
    kept.resize(most_kept(ctx, values.size()));
    std::uint32_t* to = kept.data();
    std::size_t used = 0;
    for (const chunk_grid& grid : grids(ctx, values.size())) {
      const index_layout form = layout(grid);
      const std::size_t bytes = bytes_of_bits(grid.count() * form.bits);
      for_chunks(ctx.pool, grid, chunks_per_byte, [&](index_range part) {
        select_part(values.data(), grid, form, part, to, room.subspan(used, bytes), level);
      });
      to += grid.count() * form.count;
      used += bytes;
    }
    return used;
  }

  result<std::size_t> read(const message_context& ctx, std::span<const std::byte> bytes, std::size_t n,
                           std::vector<std::uint32_t>& kept) const {
    const std::size_t expected = most_bytes(ctx, n);
    if (bytes.size() < expected) return detail::missing_bytes(name, bytes.size(), expected);
    kept.resize(most_kept(ctx, n));
    std::uint32_t* to = kept.data();
    std::size_t used = 0;
    std::atomic<bool> good{true};
    for (const chunk_grid& grid : grids(ctx, n)) {
      const index_layout form = layout(grid);
      const std::size_t size = bytes_of_bits(grid.count() * form.bits);
      const bit_reader in{bytes.subspan(used, size)};
      for_chunks(ctx.pool, grid, chunks_per_byte, [&](index_range part) {
        if (!read_part(in, grid, form, part, to)) good.store(false, std::memory_order_relaxed);
      });
      if (!in.zero_from(grid.count() * form.bits)) good.store(false, std::memory_order_relaxed);
      to += grid.count() * form.count;
      used += size;
    }
    if (!good.load(std::memory_order_relaxed)) return detail::bad_indices(name);
    return used;
  }

 private:
  // After so many chunks the bits end at a byte, whatever their number; threads share no byte.
  static constexpr std::int64_t chunks_per_byte = 8;

  /// From indices within a chunk to coordinates of the row.
  static void place(const chunk_grid& grid, std::size_t chunk, std::span<std::uint32_t> indices) {
    const auto begin = static_cast<std::uint32_t>(grid.begin_of(chunk));
    const auto beyond = static_cast<std::uint32_t>(grid.rows == 1 ? 0 : grid.stride - grid.columns);
    for (std::uint32_t& index : indices) index += begin + (grid.rows == 1 ? 0 : index / grid.columns * beyond);
  }

  static void select_part(const float* row, const chunk_grid& grid, const index_layout& form, index_range part,
                          std::uint32_t* kept, std::span<std::byte> room, kernels::simd_level level) {
    detail::top_selection selection{grid.size(), level};
    bit_writer out{room.subspan(static_cast<std::size_t>(part.begin) * form.bits / 8)};
    for (auto chunk = static_cast<std::size_t>(part.begin); chunk < static_cast<std::size_t>(part.end); ++chunk) {
      selection.load(row, grid, chunk);
      const std::span<std::uint32_t> top{kept + chunk * form.count, form.count};
      selection.find(form.count, top.data());
      write_indices(out, form, top);
      place(grid, chunk, top);
    }
    out.finish();
  }

  static bool read_part(const bit_reader& in, const chunk_grid& grid, const index_layout& form, index_range part,
                        std::uint32_t* kept) {
    for (auto chunk = static_cast<std::size_t>(part.begin); chunk < static_cast<std::size_t>(part.end); ++chunk) {
      const std::span<std::uint32_t> top{kept + chunk * form.count, form.count};
      if (!read_indices(in, chunk * form.bits, form, top)) return false;
      place(grid, chunk, top);
    }
    return true;
  }

  top_k_options options_;
};
static_assert(Sparsifier<top_k>);

}}}  // namespace causeway::CAUSEWAY_ABI::compress

#endif  // CAUSEWAY_COMPRESS_TOP_K_HPP
