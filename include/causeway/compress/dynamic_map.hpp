// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMPRESS_DYNAMIC_MAP_HPP
#define CAUSEWAY_COMPRESS_DYNAMIC_MAP_HPP

// The 256 numbers of dynamic tree quantisation (Dettmers, 2016; bitsandbytes' create_dynamic_map): seven decades below 1,
// of which each has twice as many levels as the one below it. Small values keep their sign and about their size, where an
// even code makes them zero.

#include <causeway/config/config.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress {

/// Level 127 is zero, those above it are positive, and level 255 is 1; level 127 - k is minus level 127 + k for k up to
/// 127.
///
/// `cells` finds the level of a value y in [-1, 1] from the upper 15 bits of its f32 form, b >> 17, which cut each octave
/// into 64 cells. A cell has at most one border between two levels in it (tests/compress/dynamic_map.cpp), so it needs a
/// level and where in the cell the next one begins: both are in one number, to which the lower 17 bits (of a negative y:
/// their complement, since its levels fall) are added, and then the level is (cells[b >> 17] + lower) >> 17.
class dynamic_map {
 public:
  static constexpr int zero = 127;          ///< the level of 0
  static constexpr unsigned cut_bits = 17;  ///< bits of a value that say where in its cell it is
  static constexpr std::uint32_t cut_mask = (1U << cut_bits) - 1;

  [[nodiscard]] const float* levels() const noexcept { return levels_.data(); }
  [[nodiscard]] const std::uint32_t* cells() const noexcept { return cells_.data(); }

  /// Made at the first call, in under a millisecond. 129 KiB.
  [[nodiscard]] static const dynamic_map& instance() {
    static const dynamic_map it;
    return it;
  }

 private:
  dynamic_map() : cells_(std::size_t{2} << 14U) {
    make_levels();
    make_cells(0, 1);
    make_cells(1, -1);
  }

  /// Decade i of 0 to 6: the middles of the 2^i equal parts of [0.1, 1], times 10^(i - 6).
  void make_levels() {
    double power = 1e-6;
    for (int i = 0, level = zero + 1; i < 7; ++i, power *= 10) {
      const int parts = 1 << i;
      for (int j = 0; j < parts; ++j, ++level) {
        const double value = power * (0.1 + 0.9 * (j + 0.5) / parts);
        levels_[static_cast<std::size_t>(level)] = static_cast<float>(value);
        levels_[static_cast<std::size_t>(2 * zero - level)] = -static_cast<float>(value);
      }
    }
    levels_[255] = 1.0F;
  }

  /// Of one sign: `step` is from a level to that of the next larger magnitude.
  void make_cells(std::uint32_t negative, int step) {
    int level = zero;
    for (std::uint32_t cell = 0; cell < 1U << 14U; ++cell) {
      const std::uint32_t first = cell << cut_bits, end = first + cut_mask + 1;
      const std::uint32_t next = border(level, step);
      const bool inside = next < end;
      const std::uint32_t before = inside ? next - first : cut_mask + 1;  // how many values of the cell have this level
      cells_[(negative << 14U) + cell] = step > 0 ? (static_cast<std::uint32_t>(level + 1) << cut_bits) - before
                                                  : (static_cast<std::uint32_t>(level - 1) << cut_bits) + before;
      if (inside) level += step;
    }
  }

  /// The bits of the smallest magnitude that is nearer to the level behind this one; one in the middle is not.
  [[nodiscard]] std::uint32_t border(int level, int step) const {
    const int next = level + step;
    if (next < 0 || next > 255) return ~0U;
    const auto at = [&](int l) { return static_cast<double>(levels_[static_cast<std::size_t>(l)]) * step; };
    const double middle = (at(level) + at(next)) / 2;
    const auto rounded = static_cast<float>(middle);
    return std::bit_cast<std::uint32_t>(rounded) + (static_cast<double>(rounded) <= middle ? 1U : 0U);
  }

  std::array<float, 256> levels_{};
  std::vector<std::uint32_t> cells_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::compress

#endif  // CAUSEWAY_COMPRESS_DYNAMIC_MAP_HPP
