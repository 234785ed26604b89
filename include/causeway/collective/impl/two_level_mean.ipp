// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_IMPL_TWO_LEVEL_MEAN_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_TWO_LEVEL_MEAN_IPP

#include <causeway/collective/two_level_mean.hpp>

#include <causeway/collective/gather.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective { namespace detail {

CAUSEWAY_DECL result<void> gather_regions(const exchange_port& port, const region_label& label, region_list& found) {
  std::vector<std::uint32_t> all(port.transport.size(), label.own);
  net::message_id id = port.id;
  id.channel += 1;  // the first of ours has the rows
  CAUSEWAY_TRY(all_gather(port.transport, id, std::as_bytes(std::span{&label.own, 1}),
                          std::as_writable_bytes(std::span{all}), port.options));
  found = regions_by_label(all, label.fewest);
  return {};
}

CAUSEWAY_DECL result<std::size_t> region_of(net::peer_index peer, const region_list& regions, std::uint32_t peers) {
  if (!has_each_once(regions, peers)) {
    return fail(errc::invalid_argument, "two_level_mean", "regions must name every peer of the group once");
  }
  std::size_t region = 0;
  while (std::find(regions[region].begin(), regions[region].end(), peer) == regions[region].end()) ++region;
  return region;
}

CAUSEWAY_DECL void held_transport::hold(group_view group) {
  transport_ = std::make_unique<net::any_transport>(std::move(group));
}

CAUSEWAY_INLINE held_transport& held_transport::operator=(held_transport&& other) noexcept {
  std::swap(transport_, other.transport_);
  return *this;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::collective::detail

#endif  // CAUSEWAY_COLLECTIVE_IMPL_TWO_LEVEL_MEAN_IPP
