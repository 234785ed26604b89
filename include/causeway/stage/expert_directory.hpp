// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_EXPERT_DIRECTORY_HPP
#define CAUSEWAY_STAGE_EXPERT_DIRECTORY_HPP

// Experts on a grid, and which of them are alive (Learning@home: Ryabinin and Gusev, NeurIPS 2020). An expert is named by
// its coordinates, "ffn.3.17", and announces itself for a time. Whoever looks for experts asks for what follows a prefix of
// coordinates, as the paper's DHT is asked, and never needs the whole list. Here the entries lie in one ordered map.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage {

/// Number of an expert: its coordinates as the digits of a number, the first the most significant. The same for prefixes.
using expert_id = std::uint64_t;

/// sides[i] places on axis i. 1 to 16 axes, fewer than 2^63 places in all.
class expert_grid {
 public:
  CAUSEWAY_DECL explicit expert_grid(std::vector<std::uint32_t> sides);

  [[nodiscard]] std::size_t axes() const noexcept { return sides_.size(); }
  [[nodiscard]] std::span<const std::uint32_t> sides() const noexcept { return sides_; }
  [[nodiscard]] std::uint64_t places() const noexcept { return count_; }
  /// The sum of the sides: as many scores as a gate makes.
  [[nodiscard]] std::size_t heads() const noexcept { return heads_; }
  /// Places that share the first axis + 1 coordinates.
  [[nodiscard]] std::uint64_t below(std::size_t axis) const noexcept { return below_[axis]; }
  CAUSEWAY_DECL [[nodiscard]] std::uint32_t coordinate(expert_id e, std::size_t axis) const noexcept;

 private:
  std::vector<std::uint32_t> sides_;
  std::vector<std::uint64_t> below_;
  std::uint64_t count_ = 1;
  std::size_t heads_ = 0;
};

/// `extensions(prefix, axis, out)`: which coordinates on `axis` an alive expert has whose coordinates before are `prefix`
/// (0 for axis 0), ascending. One question to a DHT.
template <class D>
concept ExpertDirectory = requires(const D& d, expert_id prefix, std::size_t axis, std::vector<std::uint32_t>& out) {
  { d.grid() } -> std::same_as<const expert_grid&>;
  { d.extensions(prefix, axis, out) } -> std::same_as<void>;
};

/// All entries in one place. Not safe to share between threads while it changes.
class expert_directory {
 public:
  CAUSEWAY_DECL explicit expert_directory(expert_grid grid);

  [[nodiscard]] const expert_grid& grid() const noexcept { return grid_; }
  [[nodiscard]] std::size_t size() const noexcept { return alive_.size(); }
  CAUSEWAY_DECL [[nodiscard]] bool contains(expert_id e) const;

  /// The expert is there until then, or longer if it was said before. Precondition: a place of the grid.
  CAUSEWAY_DECL void announce(expert_id e, time_point until = no_deadline);
  /// The expert did not answer.
  CAUSEWAY_DECL void remove(expert_id e);
  /// Forgets whoever did not announce itself again.
  CAUSEWAY_DECL void expire(time_point now);

  CAUSEWAY_DECL void extensions(expert_id prefix, std::size_t axis, std::vector<std::uint32_t>& out) const;

 private:
  expert_grid grid_;
  std::map<expert_id, time_point> alive_;  // until when
};
static_assert(ExpertDirectory<expert_directory>);

}}}  // namespace causeway::CAUSEWAY_ABI::stage

#ifndef CAUSEWAY_COMPILED
#include <causeway/stage/impl/expert_directory.ipp>
#endif

#endif  // CAUSEWAY_STAGE_EXPERT_DIRECTORY_HPP
