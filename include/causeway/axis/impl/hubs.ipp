// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_IMPL_HUBS_IPP
#define CAUSEWAY_AXIS_IMPL_HUBS_IPP

#include <causeway/axis/hubs.hpp>

#include <string>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

CAUSEWAY_DECL std::tuple<> star::outers() { return {}; }

CAUSEWAY_DECL result<void> star::check(std::uint32_t peers) const {
  if (peers == 0) return check_elastic_hubs("star", label, record_samples);
  if (hub < peers) return {};
  return fail(errc::invalid_argument, "star", "the hub is not one of the peers");
}

CAUSEWAY_DECL result<void> check_elastic_hubs(const char* who, const collective::region_label& label,
                                              std::uint64_t record_samples) {
  if (record_samples == 0) {
    return fail(errc::invalid_argument, who,
                "record_samples is 0, but peers come and go: say how many samples all of them train on together from one "
                "record to the next, such as 4 pushes of each peer");
  }
  if (label.own == collective::region_label::any ? label.fewest > 0 : label.own < label.fewest) return {};
  return fail(errc::invalid_argument, who,
              "this peer says that it is in region " + std::to_string(label.own) + ", but there are " +
                  std::to_string(label.fewest) + ", numbered from 0 on (`label`)");
}

CAUSEWAY_DECL std::vector<hub_level> star::levels(std::uint32_t peers) const {
  std::vector<net::peer_index> all{hub};
  for (net::peer_index p = 0; p < peers; ++p) {
    if (p != hub) all.push_back(p);
  }
  return {{.groups = {std::move(all)}}};
}

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#endif  // CAUSEWAY_AXIS_IMPL_HUBS_IPP
