// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_LINK_FIXTURES_HPP
#define CAUSEWAY_PLAN_LINK_FIXTURES_HPP

// The five networks that DTFM was measured on (Yuan et al., NeurIPS 2022, arXiv 2206.01288; the authors' figures): one data
// centre, a data centre of spot instances, two universities, four sites in the United States, eight cities worldwide. The
// figures are taken as delays of one direction, as the source does; bench/sim/networks/ reads the same ones as round trips.

#include <causeway/config/config.hpp>
#include <causeway/plan/link_matrix.hpp>

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// (1) Machines of eight devices: 100 Gbit/s within a machine, 3.125 between, no delay.
CAUSEWAY_DECL link_matrix one_data_centre(std::size_t devices);

/// (2) Spot instances: the first eight have four devices and 100 Gbit/s within; all others one; 1.25 Gbit/s between.
CAUSEWAY_DECL link_matrix spot_data_centre(std::size_t devices);

/// (3) Half of the devices in Ohio, half in Virginia.
CAUSEWAY_DECL link_matrix two_universities(std::size_t devices);

/// (4) A quarter each in Virginia, Oregon, California and Ohio.
CAUSEWAY_DECL link_matrix four_sites(std::size_t devices);

/// The cities of `worldwide`, in the order of its devices.
inline constexpr std::array<std::string_view, 8> worldwide_cities{"Oregon", "Virginia", "Ohio",      "Tokyo",
                                                                  "Seoul",  "London",   "Frankfurt", "Ireland"};

/// (5) An eighth each in eight cities, from 11 ms and 1.12 Gbit/s (Virginia and Ohio) to 228 ms and 0.335 (Seoul and
/// Ireland); 10 ms and 2 Gbit/s within a city.
CAUSEWAY_DECL link_matrix worldwide(std::size_t devices);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/link_fixtures.ipp>
#endif

#endif  // CAUSEWAY_PLAN_LINK_FIXTURES_HPP
