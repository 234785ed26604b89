// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_LINK_MATRIX_HPP
#define CAUSEWAY_PLAN_LINK_MATRIX_HPP

// What a message costs between any two devices: a delay and then the bytes at a rate (alpha-beta model; Hockney 1994). A
// direction may differ from its reverse. Links do not disturb one another: what shares a line must be told a smaller rate.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::plan {

/// One direction between two devices.
struct link_cost {
  double delay = 0;                                            ///< seconds until the first bit arrives, >= 0
  double bandwidth = std::numeric_limits<double>::infinity();  ///< bits per second, > 0; infinite: the same device

  /// Seconds until the last of `bytes` bytes has arrived.
  [[nodiscard]] double seconds(double bytes) const noexcept { return delay + 8 * bytes / bandwidth; }
};

/// The links between `size()` devices, or between as many regions: then the diagonal holds the links within a region.
class link_matrix {
 public:
  link_matrix() = default;

  /// The same link everywhere, and nothing to pay from a device to itself.
  explicit link_matrix(std::size_t devices, const link_cost& everywhere = {})
      : size_{devices}, links_(devices * devices, everywhere) {
    for (std::size_t i = 0; i < devices; ++i) links_[i * devices + i] = {};
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  [[nodiscard]] const link_cost& operator()(std::size_t from, std::size_t to) const {
    CAUSEWAY_EXPECT(from < size_ && to < size_);
    return links_[from * size_ + to];
  }

  /// One direction.
  void set(std::size_t from, std::size_t to, const link_cost& link) {
    CAUSEWAY_EXPECT(from < size_ && to < size_);
    links_[from * size_ + to] = link;
  }

  void set_both(std::size_t a, std::size_t b, const link_cost& link) {
    set(a, b, link);
    set(b, a, link);
  }

  /// Seconds for `bytes` there and as many back, halved: what a direction costs on average.
  [[nodiscard]] double mean_seconds(std::size_t a, std::size_t b, double bytes) const {
    return ((*this)(a, b).seconds(bytes) + (*this)(b, a).seconds(bytes)) / 2;
  }

  /// The links between devices, where this matrix is one of regions and device i stands in region `region_of[i]`.
  [[nodiscard]] link_matrix devices_in(std::span<const std::size_t> region_of) const {
    link_matrix all{region_of.size()};
    for (std::size_t i = 0; i < region_of.size(); ++i) {
      for (std::size_t j = 0; j < region_of.size(); ++j) {
        if (i != j) all.set(i, j, (*this)(region_of[i], region_of[j]));
      }
    }
    return all;
  }

 private:
  std::size_t size_ = 0;
  std::vector<link_cost> links_;
};

/// Whether every delay is finite and >= 0, and every bandwidth > 0. errc::invalid_argument names the pair.
inline result<void> check(const link_matrix& links) {
  for (std::size_t i = 0; i < links.size(); ++i) {
    for (std::size_t j = 0; j < links.size(); ++j) {
      const link_cost& l = links(i, j);
      if (std::isfinite(l.delay) && l.delay >= 0 && l.bandwidth > 0) continue;
      return fail(errc::invalid_argument, "link " + std::to_string(i) + " to " + std::to_string(j),
                  "has a delay that is not finite and >= 0, or no bandwidth; leave devices without links out");
    }
  }
  return {};
}

}  // namespace causeway::inline CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_LINK_MATRIX_HPP
