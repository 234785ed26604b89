// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_PACKED_GEMM_BLOCKING_HPP
#define CAUSEWAY_KERNELS_PACKED_GEMM_BLOCKING_HPP

// How the packed product cuts its work: into shares for threads, into blocks that fit the caches, into panels of packed
// operands. Nothing here depends on the machine's load, and the cut along k depends on k alone, so that every element of C
// is the same sum in the same order whatever the number of threads.

#include <causeway/config/config.hpp>
#include <causeway/kernels/gemm.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels { namespace detail {

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) noexcept { return (a + b - 1) / b; }
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) noexcept { return divide_up(a, b) * b; }

/// The sizes of the blocks that stay in a cache: B's is depth x columns, A's is rows x depth.
struct block_sizes {
  std::int64_t depth;
  std::int64_t rows;
  std::int64_t columns;
};

/// What most tiles have in common.
struct tile_defaults {
  static constexpr std::int64_t row_unit = 1;  ///< heights of panels are multiples of it, the last one's aside
  static void open() noexcept {}               ///< before a thread's first product
  static void close() noexcept {}              ///< after its last
};

/// What `of` gives for each height of a panel, from 1 to Rows.
template <int Rows>
consteval auto by_height(auto of) {
  const auto all = [of]<int... I>(std::integer_sequence<int, I...>) {
    return std::array{of(std::integral_constant<int, I + 1>{})...};
  };
  return all(std::make_integer_sequence<int, Rows>{});
}

/// `limit` or less, so that `count` falls into equal parts that are multiples of `unit`.
constexpr std::int64_t even_block(std::int64_t count, std::int64_t limit, std::int64_t unit) noexcept {
  const std::int64_t blocks = std::max<std::int64_t>(1, divide_up(count, limit));
  return std::max(unit, round_up(divide_up(count, blocks), unit));
}

/// Shares as a grid over C: `rows` parts of its rows times `columns` parts of its columns.
struct thread_grid {
  unsigned rows = 1;
  unsigned columns = 1;
  [[nodiscard]] constexpr unsigned size() const noexcept { return rows * columns; }
};

/// The grid with the smallest largest part, counting what each part costs to compute and to pack.
constexpr thread_grid choose_grid(std::int64_t m, std::int64_t n, std::int64_t strip, unsigned shares) noexcept {
  constexpr std::int64_t packing = 8;  // packing one operand element costs about as much as 8 multiply-adds
  thread_grid best;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (unsigned rows = 1; rows <= shares; ++rows) {
    const unsigned columns = shares / rows;
    const std::int64_t height = divide_up(m, rows);
    const std::int64_t width = divide_up(divide_up(n, strip), columns) * strip;
    const std::int64_t cost = height * width + packing * (height + width);
    if (cost < least) {
      least = cost;
      best = {rows, columns};
    }
  }
  return best;
}

/// One operand as the packing sees it: lanes (rows of A, columns of B) by depth (k). One of the strides is 1.
template <class In>
struct operand {
  const In* data;
  std::int64_t lane_stride;
  std::int64_t depth_stride;

  [[nodiscard]] operand at(std::int64_t lane, std::int64_t depth) const noexcept {
    if (data == nullptr) return *this;  // of a product over k = 0
    return {data + lane * lane_stride + depth * depth_stride, lane_stride, depth_stride};
  }
};

/// Brings a block of an operand towards the caches, a few lines at a time, while other things are computed. Hardware does
/// not see such a block coming: it consists of many short pieces that are far apart.
class fetch_ahead {
 public:
  fetch_ahead() = default;
  template <class In>
  fetch_ahead(operand<In> source, std::int64_t lanes, std::int64_t depth) noexcept
      : piece_{reinterpret_cast<const char*>(source.data)},
        pitch_{std::max(source.lane_stride, source.depth_stride) * static_cast<std::int64_t>(sizeof(In))},
        length_{(source.lane_stride == 1 ? lanes : depth) * static_cast<std::int64_t>(sizeof(In))},
        pieces_{source.lane_stride == 1 ? depth : lanes} {}

  /// Left to fetch.
  [[nodiscard]] std::int64_t lines() const noexcept { return pieces_ * divide_up(length_, line) - at_ / line; }

  void fetch(std::int64_t count) noexcept {
    for (; count > 0 && pieces_ > 0; --count) {
      __builtin_prefetch(piece_ + at_, 0, 2);
      at_ += line;
      if (at_ < length_) continue;
      at_ = 0;
      piece_ += pitch_;
      --pieces_;
    }
  }

 private:
  static constexpr std::int64_t line = 64;
  const char* piece_ = nullptr;
  std::int64_t pitch_ = 0;   ///< bytes between two pieces
  std::int64_t length_ = 0;  ///< bytes of a piece
  std::int64_t pieces_ = 0;  ///< left
  std::int64_t at_ = 0;      ///< in the piece
};

/// A panel of A for Tile: packed as strips of B are, as wide as it has lanes, unless the tile packs its panels otherwise.
template <class Tile, class In>
void pack_panel(operand<In> source, int lanes, std::int64_t depth, typename Tile::packed* out) {
  if constexpr (requires { &Tile::pack_panel; }) {
    Tile::pack_panel(source, lanes, depth, out);
  } else {
    Tile::pack(source, lanes, depth, lanes, out);
  }
}

template <class In, class Out>
operand<In> left_operand(const gemm_args<In, Out>& args) noexcept {
  return args.transpose_a ? operand<In>{args.a, 1, args.lda} : operand<In>{args.a, args.lda, 1};
}

template <class In, class Out>
operand<In> right_operand(const gemm_args<In, Out>& args) noexcept {
  return args.transpose_b ? operand<In>{args.b, args.ldb, 1} : operand<In>{args.b, 1, args.ldb};
}

}}}}  // namespace causeway::CAUSEWAY_ABI::kernels::detail

#endif  // CAUSEWAY_KERNELS_PACKED_GEMM_BLOCKING_HPP
