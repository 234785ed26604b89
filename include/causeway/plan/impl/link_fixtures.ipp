// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_LINK_FIXTURES_IPP
#define CAUSEWAY_PLAN_IMPL_LINK_FIXTURES_IPP

#include <causeway/plan/link_fixtures.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

inline constexpr link_cost ms_gbit(double milliseconds, double gigabits) noexcept {
  return {milliseconds * 1e-3, gigabits * 1e9};
}

/// `from(i)` for each pair i < j of regions, in the order 0-1, 0-2, ..., 1-2, ...; `within` on the diagonal.
CAUSEWAY_DECL link_matrix regions_from(std::size_t regions, std::span<const link_cost> pairs, const link_cost& within) {
  link_matrix m{regions};
  std::size_t next = 0;
  for (std::size_t i = 0; i < regions; ++i) {
    m.set(i, i, within);
    for (std::size_t j = i + 1; j < regions; ++j) m.set_both(i, j, pairs[next++]);
  }
  return m;
}

/// As many devices in each region, region after region; the last ones get one less where that does not work out.
CAUSEWAY_DECL link_matrix evenly_spread(const link_matrix& regions, std::size_t devices) {
  std::vector<std::size_t> region_of(devices);
  for (std::size_t i = 0; i < devices; ++i) region_of[i] = i * regions.size() / devices;
  return regions.devices_in(region_of);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL link_matrix one_data_centre(std::size_t devices) {
  link_matrix m{devices, detail::ms_gbit(0, 3.125)};
  for (std::size_t i = 0; i < devices; ++i) {
    for (std::size_t j = 0; j < devices; ++j) {
      if (i != j && i / 8 == j / 8) m.set(i, j, detail::ms_gbit(0, 100));
    }
  }
  return m;
}

CAUSEWAY_DECL link_matrix spot_data_centre(std::size_t devices) {
  link_matrix m{devices, detail::ms_gbit(0, 1.25)};
  for (std::size_t i = 0; i < devices && i < 32; ++i) {
    for (std::size_t j = 0; j < devices && j < 32; ++j) {
      if (i != j && i / 4 == j / 4) m.set(i, j, detail::ms_gbit(0, 100));
    }
  }
  return m;
}

CAUSEWAY_DECL link_matrix two_universities(std::size_t devices) {
  constexpr std::array pairs{detail::ms_gbit(11, 1.12)};
  return detail::evenly_spread(detail::regions_from(2, pairs, detail::ms_gbit(1, 5)), devices);
}

CAUSEWAY_DECL link_matrix four_sites(std::size_t devices) {
  using detail::ms_gbit;
  constexpr std::array pairs{ms_gbit(67, 1.15), ms_gbit(59, 1.05), ms_gbit(11, 1.12),
                             ms_gbit(12, 1.25), ms_gbit(49, 1.10), ms_gbit(52, 1.02)};
  return detail::evenly_spread(detail::regions_from(4, pairs, ms_gbit(10, 2)), devices);
}

CAUSEWAY_DECL link_matrix worldwide(std::size_t devices) {
  using detail::ms_gbit;
  constexpr std::array pairs{ms_gbit(67, 0.79),   ms_gbit(49, 1.10),   ms_gbit(96, 0.523),  ms_gbit(124, 0.46),  // Oregon
                             ms_gbit(136, 0.42),  ms_gbit(143, 0.404), ms_gbit(124, 0.482),                      //
                             ms_gbit(11, 1.12),   ms_gbit(143, 0.524), ms_gbit(172, 0.500), ms_gbit(76, 1.16),   // Virginia
                             ms_gbit(90, 1.02),   ms_gbit(67, 1.05),                                             //
                             ms_gbit(130, 0.694), ms_gbit(159, 0.529), ms_gbit(86, 1.05),   ms_gbit(99, 0.799),  // Ohio
                             ms_gbit(77, 1.14),                                                                  //
                             ms_gbit(34, 1.10),   ms_gbit(210, 0.366), ms_gbit(223, 0.36),  ms_gbit(199, 0.465),  // Tokyo
                             ms_gbit(238, 0.342), ms_gbit(235, 0.358), ms_gbit(228, 0.335),                       // Seoul
                             ms_gbit(14, 1.14),   ms_gbit(12, 1.09),                                              // London
                             ms_gbit(24, 1.08)};  // Frankfurt
  return detail::evenly_spread(detail::regions_from(worldwide_cities.size(), pairs, ms_gbit(10, 2)), devices);
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_LINK_FIXTURES_IPP
