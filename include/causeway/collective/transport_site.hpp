// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_TRANSPORT_SITE_HPP
#define CAUSEWAY_COLLECTIVE_TRANSPORT_SITE_HPP

// A site over the run's own network: for machines of a local network, for GPUs without NCCL, and for tests.

#include <causeway/collective/all_reduce.hpp>
#include <causeway/collective/broadcast.hpp>
#include <causeway/collective/channels.hpp>
#include <causeway/collective/gather.hpp>
#include <causeway/collective/group_view.hpp>
#include <causeway/collective/options.hpp>
#include <causeway/collective/site.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::collective {

/// The members talk on three channels from `id.channel` on, which nobody else of them uses. Sums are added in the order of
/// the members' ranks (collective_options::how), and NaN or infinity is errc::non_finite. Bytes sent by a member: of a mean
/// 2 (n-1)/n · 4 a value; of a broadcast at most 4 a value. `over` and the options' pool and workspace must outlive it.
class transport_site final : public site {
 public:
  /// `members[r]` is the peer of rank r, this one among them.
  transport_site(net::any_transport& over, std::vector<net::peer_index> members, const net::message_id& id,
                 const collective_options& options)
      : group_{over, std::move(members)}, id_{id}, options_{options} {}

  [[nodiscard]] std::uint32_t size() const override { return group_.size(); }
  [[nodiscard]] std::uint32_t rank() const override { return group_.self(); }

  [[nodiscard]] result<void> mean(std::span<float> data) override {
    return all_reduce_mean(group_, of_kind(0), data, options_);
  }
  [[nodiscard]] result<void> broadcast(std::uint32_t from, std::span<float> data) override {
    return collective::broadcast(group_, of_kind(1), from, data, options_);
  }
  [[nodiscard]] result<bool> all_of(bool mine) override {
    const std::byte own{mine};
    std::vector<std::byte> said(group_.size());
    CAUSEWAY_TRY(all_gather(group_, of_kind(2), std::span{&own, 1}, std::span{said}, options_));
    for (net::peer_index r = 0; r < group_.size(); ++r) {
      if (said[r] > std::byte{1})
        return fail(errc::corrupt, peer_name(group_.peer_of(r)), "its word is neither yes nor no");
    }
    return std::all_of(said.begin(), said.end(), [](std::byte b) { return b == std::byte{1}; });
  }

 private:
  /// A collective adds up to three phases to its channel.
  [[nodiscard]] net::message_id of_kind(std::uint32_t kind) const {
    net::message_id id = id_;
    id.channel += 4 * kind;
    return id;
  }

  group_view group_;
  net::message_id id_;
  collective_options options_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_TRANSPORT_SITE_HPP
