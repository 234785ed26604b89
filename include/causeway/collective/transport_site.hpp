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

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// The members talk on three channels from `id.channel` on, which nobody else of them uses. Sums are added in the order of
/// the members' ranks (collective_options::how), and NaN or infinity is errc::non_finite. Bytes sent by a member: of a mean
/// 2 (n-1)/n · 4 a value; of a broadcast at most 4 a value. `over` and the options' pool and workspace must outlive it.
class transport_site final : public site {
 public:
  /// `members[r]` is the peer of rank r, this one among them.
  CAUSEWAY_DECL transport_site(net::any_transport& over, std::vector<net::peer_index> members, const net::message_id& id,
                               const collective_options& options);

  [[nodiscard]] std::uint32_t size() const override { return group_.size(); }
  [[nodiscard]] std::uint32_t rank() const override { return group_.self(); }

  [[nodiscard]] CAUSEWAY_INLINE result<void> mean(std::span<float> data) override;
  [[nodiscard]] CAUSEWAY_INLINE result<void> sum(std::span<float> data) override;
  [[nodiscard]] CAUSEWAY_INLINE result<void> broadcast(std::uint32_t from, std::span<float> data) override;
  [[nodiscard]] CAUSEWAY_INLINE result<bool> all_of(bool mine) override;

 private:
  /// A collective adds up to three phases to its channel.
  CAUSEWAY_DECL [[nodiscard]] net::message_id of_kind(std::uint32_t kind) const;

  group_view group_;
  net::message_id id_;
  collective_options options_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#ifndef CAUSEWAY_COMPILED
#include <causeway/collective/impl/transport_site.ipp>
#endif

#endif  // CAUSEWAY_COLLECTIVE_TRANSPORT_SITE_HPP
