// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_IMPL_PACKED_GEMM_IPP
#define CAUSEWAY_KERNELS_IMPL_PACKED_GEMM_IPP

#include <causeway/kernels/packed_gemm.hpp>
#include <causeway/kernels/packed_gemm_amx.hpp>
#include <causeway/kernels/packed_gemm_avx2.hpp>
#include <causeway/kernels/packed_gemm_avx512.hpp>
#include <causeway/kernels/packed_gemm_avx512_bf16.hpp>
#include <causeway/kernels/packed_gemm_blocking.hpp>
#include <causeway/kernels/packed_gemm_finish.hpp>
#include <causeway/kernels/packed_gemm_portable.hpp>
#include <causeway/kernels/targets.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels { namespace detail {

/// One product with the kernels of `Tile`, cut into shares.
template <class Tile, class In, class Out>
class packed_product {
 public:
  packed_product(const gemm_args<In, Out>& args, unsigned shares)
      : args_{args}, grid_{choose_grid(args.m, args.n, Tile::columns, shares)} {
    depth_ = even_block(args.k, Tile::blocks.depth, std::max(16, Tile::depth_step));
    rows_ = even_block(share_height(), Tile::blocks.rows, Tile::row_unit);
    columns_ =
        even_block(divide_up(args.n, grid_.columns), Tile::blocks.columns * Tile::blocks.depth / depth_, Tile::columns);
    only_rounds_ =
        !args.accumulate && args.residual == nullptr && args.act == activation::none && args.pre_activation == nullptr;
    plain_ = std::is_same_v<Out, float> && args.bias == nullptr && args.residual == nullptr &&
             args.act == activation::none && args.pre_activation == nullptr;
  }

  void run(thread_pool& pool, scratch& memory) {
    auto frame = memory.open();
    memory_ = frame.template take<std::byte>(share_bytes() * (grid_.size() == 1 ? 1 : pool.size()));
    if (grid_.size() == 1) {
      work(0, 0);
    } else {
      pool.for_each(grid_.size(), [this](unsigned index, unsigned thread) { work(index, thread); });
    }
  }

 private:
  using packed = typename Tile::packed;

  [[nodiscard]] std::int64_t steps(std::int64_t depth) const noexcept { return divide_up(depth, Tile::depth_step); }
  [[nodiscard]] static constexpr unsigned panels(std::int64_t rows) noexcept {
    return static_cast<unsigned>(divide_up(rows, Tile::rows));
  }
  [[nodiscard]] static constexpr unsigned strips(std::int64_t columns) noexcept {
    return static_cast<unsigned>(divide_up(columns, Tile::columns));
  }
  /// Panels are nearly equally high, so that none is too low to keep the multipliers busy.
  [[nodiscard]] static constexpr index_range panel(std::int64_t rows, unsigned i) noexcept {
    return share_of(rows, i, panels(rows), Tile::row_unit);
  }
  [[nodiscard]] static constexpr index_range strip(std::int64_t columns, unsigned i) noexcept {
    return {i * Tile::columns, std::min<std::int64_t>((i + 1) * Tile::columns, columns)};
  }
  /// The most rows of a share.
  [[nodiscard]] std::int64_t share_height() const noexcept {
    return divide_up(divide_up(args_.m, Tile::row_unit), grid_.rows) * Tile::row_unit;
  }
  /// Elements between two panels of A. Packing may write up to a vector beyond a panel.
  [[nodiscard]] std::int64_t panel_size() const noexcept { return round_up(Tile::rows * steps(depth_), 16) + 16; }
  [[nodiscard]] std::int64_t strip_size() const noexcept { return Tile::columns * steps(depth_); }
  /// Of B: all of a block where several blocks of rows need them, else one, which then stays in the first caches.
  [[nodiscard]] std::int64_t kept_strips() const noexcept { return share_height() <= rows_ ? 1 : strips(columns_); }
  [[nodiscard]] packed* kept_strip(packed* b, std::int64_t j) const noexcept {
    return b + (kept_strips() == 1 ? 0 : j) * strip_size();
  }
  [[nodiscard]] std::size_t a_bytes() const noexcept {
    return round_to_line(static_cast<std::size_t>(panels(rows_) * panel_size()) * sizeof(packed));
  }
  [[nodiscard]] std::size_t b_bytes() const noexcept {
    return round_to_line(static_cast<std::size_t>(kept_strips() * strip_size()) * sizeof(packed));
  }
  [[nodiscard]] static constexpr std::size_t tile_bytes() noexcept {
    return round_to_line(sizeof(float) * Tile::rows * Tile::columns);
  }
  /// Sums of several blocks of k are kept in f32: in C where it can hold them, else here.
  [[nodiscard]] std::size_t partial_bytes() const noexcept {
    if (std::is_same_v<Out, float> || args_.k <= depth_) return 0;
    return round_to_line(static_cast<std::size_t>(share_height() * columns_) * sizeof(float));
  }
  [[nodiscard]] std::size_t share_bytes() const noexcept { return a_bytes() + b_bytes() + tile_bytes() + partial_bytes(); }
  [[nodiscard]] static constexpr std::size_t round_to_line(std::size_t bytes) noexcept { return (bytes + 63) / 64 * 64; }

  /// Where a thread works: its part of C and its memory.
  struct place {
    index_range rows;
    packed* a;
    packed* b;
    float* tile;
    float* partial;
    std::int64_t ld_partial;
    std::int64_t column;  ///< of the current block of columns
    std::int64_t width;
    std::int64_t from;   ///< where the current block of k starts
    std::int64_t depth;  ///< of the current block of k
    bool first;          ///< block of k
    bool last;
  };

  void work(unsigned index, unsigned thread) {
    Tile::open();
    share(index, memory_ + share_bytes() * thread);
    Tile::close();
  }

  void share(unsigned index, std::byte* memory) {
    const index_range columns = share_of(args_.n, index % grid_.columns, grid_.columns, Tile::columns);
    place at{};
    at.rows = share_of(args_.m, index / grid_.columns, grid_.rows, Tile::row_unit);
    if (at.rows.size() <= 0) return;
    at.a = reinterpret_cast<packed*>(memory);
    at.b = reinterpret_cast<packed*>(memory + a_bytes());
    at.tile = reinterpret_cast<float*>(memory + a_bytes() + b_bytes());
    float* spare = reinterpret_cast<float*>(memory + a_bytes() + b_bytes() + tile_bytes());
    for (at.column = columns.begin; at.column < columns.end; at.column += columns_) {
      at.width = std::min(columns_, columns.end - at.column);
      place_partial(at, spare);
      column_block(at);
    }
  }

  void place_partial(place& at, float* spare) {
    if constexpr (std::is_same_v<Out, float>) {
      at.partial = args_.c + at.rows.begin * args_.ldc + at.column;
      at.ld_partial = args_.ldc;
    } else {
      at.partial = spare;
      at.ld_partial = columns_;
    }
  }

  void column_block(place& at) {
    at.from = 0;
    do {
      at.depth = std::min(depth_, args_.k - at.from);
      at.first = at.from == 0;
      at.last = at.from + at.depth >= args_.k;
      for (std::int64_t row = at.rows.begin; row < at.rows.end; row += rows_) {
        const std::int64_t height = std::min(rows_, at.rows.end - row);
        pack_panels(left_operand(args_).at(row, at.from), height, at.depth, at.a);
        row_block(at, row, height);
      }
      at.from += at.depth;
    } while (at.from < args_.k);
  }

  /// Values of k that are packed at a time where lanes follow each other in memory.
  static constexpr std::int64_t chunk_depth = Tile::depth_step < 8 ? 8 * Tile::depth_step : Tile::depth_step;

  /// Packs a block of A. Where lanes follow each other in memory, a few steps at a time of all panels: memory is then read
  /// along rows, not in short pieces from many pages.
  void pack_panels(operand<In> source, std::int64_t lanes, std::int64_t depth, packed* out) {
    const std::int64_t chunk = source.lane_stride == 1 ? chunk_depth : depth;
    for (std::int64_t p = 0; p < depth; p += chunk) {
      for (unsigned i = 0; i < panels(lanes); ++i) {
        const index_range part = panel(lanes, i);
        const int used = static_cast<int>(part.size());
        pack_panel<Tile>(source.at(part.begin, p), used, std::min(chunk, depth - p),
                         out + i * panel_size() + steps(p) * used);
      }
    }
  }

  /// Strip `j` of the current block of B.
  [[nodiscard]] operand<In> strip_source(const place& at, unsigned j) const noexcept {
    return right_operand(args_).at(at.column + j * Tile::columns, at.from);
  }

  /// Whether an operand with so many lanes is more than a second cache holds. Fetching one that is there already costs 3 %.
  [[nodiscard]] bool is_far(std::int64_t lanes) const noexcept {
    return lanes * args_.k * static_cast<std::int64_t>(sizeof(In)) > (std::int64_t{1} << 20);
  }

  /// The block of A that is packed after the one at `row`: the next rows, or the first ones of the next block of k.
  [[nodiscard]] fetch_ahead next_panels(const place& at, std::int64_t row) const noexcept {
    const bool below = row + rows_ < at.rows.end;
    const std::int64_t from = below ? at.from : at.from + at.depth;
    if (from >= args_.k || !is_far(args_.m)) return {};
    row = below ? row + rows_ : at.rows.begin;
    return {left_operand(args_).at(row, from), std::min(rows_, at.rows.end - row), std::min(depth_, args_.k - from)};
  }

  /// The first block of rows packs B, strip by strip, each right before it is used. What is packed next is fetched from
  /// memory a little before every tile, while the multipliers are busy.
  void row_block(const place& at, std::int64_t row, std::int64_t height) {
    const bool packs = row == at.rows.begin;
    const std::int64_t tiles = panels(height);
    fetch_ahead next_a = next_panels(at, row);
    const std::int64_t lines_of_a = divide_up(next_a.lines(), tiles * strips(at.width));
    for (unsigned j = 0; j < strips(at.width); ++j) {
      packed* const b = kept_strip(at.b, j);
      fetch_ahead next_b;
      if (packs) {
        const index_range part = strip(at.width, j);
        Tile::pack(strip_source(at, j), static_cast<int>(part.size()), at.depth, Tile::columns, b);
        if (j + 1 < strips(at.width) && is_far(args_.n))
          next_b = {strip_source(at, j + 1), strip(at.width, j + 1).size(), at.depth};
      }
      const std::int64_t lines_of_b = divide_up(next_b.lines(), tiles);
      for (unsigned i = 0; i < tiles; ++i) {
        next_a.fetch(lines_of_a);
        next_b.fetch(lines_of_b);
        const index_range part = panel(height, i);
        tile(at, row + part.begin, static_cast<int>(part.size()), j, at.a + i * panel_size(), b);
      }
    }
  }

  /// One tile: the last block of k finishes C where there is more to do than to sum.
  void tile(const place& at, std::int64_t row, int height, unsigned index, const packed* a, const packed* b) {
    const index_range columns = strip(at.width, index);
    float* sums = at.partial + (row - at.rows.begin) * at.ld_partial + columns.begin;
    if (at.last && !plain_) {
      finished_tile(at, row, at.column + columns.begin, height, static_cast<int>(columns.size()), a, b, sums);
    } else {
      summed_tile(at, height, static_cast<int>(columns.size()), a, b, sums);
    }
  }

  /// Adds a tile to `sums`, directly where the strip is full or there is room for a full one.
  void summed_tile(const place& at, int height, int width, const packed* a, const packed* b, float* sums) {
    constexpr bool in_c = std::is_same_v<Out, float>;
    const bool add = !at.first || (args_.accumulate && in_c);
    if (width == Tile::columns || !in_c) {
      return Tile::multiply(height, steps(at.depth), a, b, sums, at.ld_partial, add);
    }
    Tile::multiply(height, steps(at.depth), a, b, at.tile, Tile::columns, false);
    finish_args<float> to{};
    to.accumulate = add;
    to.c = sums;
    to.ldc = at.ld_partial;
    finish(at.tile, height, width, to);
  }

  void finished_tile(const place& at, std::int64_t row, std::int64_t column, int height, int width, const packed* a,
                     const packed* b, const float* sums) {
    finish_args<Out> to = finish_at(args_, row, column);
    if (!at.first) {
      to.partial = sums;
      to.ld_partial = at.ld_partial;
      to.accumulate = args_.accumulate && !std::is_same_v<Out, float>;  // f32 sums started with C
    }
    if constexpr (requires { Tile::multiply_and_round(height, at.depth, a, b, to); }) {
      if (only_rounds_ && width == Tile::columns) return Tile::multiply_and_round(height, steps(at.depth), a, b, to);
    }
    Tile::multiply(height, steps(at.depth), a, b, at.tile, Tile::columns, false);
    finish(at.tile, height, width, to);
  }

  template <class T>
  static void finish(const float* tile, int height, int width, const finish_args<T>& to) {
    finish_sums(Tile::level, tile, Tile::columns, height, width, &to);
  }

  const gemm_args<In, Out>& args_;
  thread_grid grid_;
  std::int64_t depth_;
  std::int64_t rows_;
  std::int64_t columns_;
  bool plain_;        ///< C is the sums, with nothing to do but to add to it
  bool only_rounds_;  ///< C is the sums and the bias, rounded
  std::byte* memory_ = nullptr;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::kernels::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

template <class In, class Out>
  requires gemm_types<In, Out>
void packed_gemm::multiply(thread_pool& pool, scratch& memory, const gemm_args<In, Out>& arguments) {
  const gemm_args<In, Out> args = detail::checked(arguments);
  if (args.m == 0 || args.n == 0) return;
  // Two shares for each thread, so that one which is slowed down can be helped; each more packs its operands once more.
  // Below about four microseconds of work, waking a second thread costs more than it brings.
  const bool small = args.m * args.n * std::max<std::int64_t>(args.k, 1) < 200'000;
  dispatch(pool, memory, args, small || pool.size() == 1 ? 1 : 2 * pool.size());
}

template <class In, class Out>
void packed_gemm::dispatch(thread_pool& pool, scratch& memory, const gemm_args<In, Out>& args, unsigned shares) {
#if CAUSEWAY_X86_SIMD
  const simd_level level = this->level<In>();
  if constexpr (std::is_same_v<In, bf16>) {
    if (level >= simd_level::amx_bf16) {
      return detail::packed_product<detail::amx_tile, In, Out>{args, shares}.run(pool, memory);
    }
    if (level >= simd_level::avx512_bf16) {
      return detail::packed_product<detail::avx512_bf16_tile, In, Out>{args, shares}.run(pool, memory);
    }
  }
  if (level >= simd_level::avx512) {
    return detail::packed_product<detail::avx512_tile, In, Out>{args, shares}.run(pool, memory);
  }
  if (level >= simd_level::avx2) {
    return detail::packed_product<detail::avx2_tile, In, Out>{args, shares}.run(pool, memory);
  }
#endif
  detail::packed_product<detail::portable_tile, In, Out>{args, shares}.run(pool, memory);
}

#ifdef CAUSEWAY_COMPILED
template void packed_gemm::multiply(thread_pool&, scratch&, const gemm_args<float, float>&);
template void packed_gemm::multiply(thread_pool&, scratch&, const gemm_args<bf16, float>&);
template void packed_gemm::multiply(thread_pool&, scratch&, const gemm_args<bf16, bf16>&);
#endif

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_IMPL_PACKED_GEMM_IPP
