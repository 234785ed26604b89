// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_LINK_MATRIX_HPP
#define CAUSEWAY_PLAN_LINK_MATRIX_HPP

// What a message costs between any two devices: a delay and then the bytes at a rate (alpha-beta model; Hockney 1994). A
// direction may differ from its reverse. Links do not disturb one another: what shares a line must be told a smaller rate.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

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
  CAUSEWAY_DECL explicit link_matrix(std::size_t devices, const link_cost& everywhere = {});

  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  CAUSEWAY_DECL [[nodiscard]] const link_cost& operator()(std::size_t from, std::size_t to) const;

  /// One direction.
  CAUSEWAY_DECL void set(std::size_t from, std::size_t to, const link_cost& link);

  CAUSEWAY_DECL void set_both(std::size_t a, std::size_t b, const link_cost& link);

  /// Seconds for `bytes` there and as many back, halved: what a direction costs on average.
  CAUSEWAY_DECL [[nodiscard]] double mean_seconds(std::size_t a, std::size_t b, double bytes) const;

  /// The links between devices, where this matrix is one of regions and device i stands in region `region_of[i]`.
  CAUSEWAY_DECL [[nodiscard]] link_matrix devices_in(std::span<const std::size_t> region_of) const;

 private:
  std::size_t size_ = 0;
  std::vector<link_cost> links_;
};

/// Whether every delay is finite and >= 0, and every bandwidth > 0. errc::invalid_argument names the pair.
CAUSEWAY_DECL result<void> check(const link_matrix& links);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/link_matrix.ipp>
#endif

#endif  // CAUSEWAY_PLAN_LINK_MATRIX_HPP
