// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_DURABLE_RECORD_HPP
#define CAUSEWAY_MEMBERSHIP_DURABLE_RECORD_HPP

// What a peer must remember across a crash, whatever else it forgets: whom it promised what, what it voted for, and the
// newest commit it knows. It is written before any answer that depends on it leaves. A peer whose record is lost or corrupt
// is a new peer and takes a new id: with its old one it might break a promise.

#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/membership/ledger.hpp>
#include <causeway/membership/records.hpp>
#include <causeway/net/codec.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

/// A vote: the value, and the newest ballot in which this peer voted for it.
struct acceptance {
  ballot at;
  commit_record value;

  friend bool operator==(const acceptance&, const acceptance&) = default;
};

struct durable_record {
  std::uint64_t run = 0;
  net::peer_id self = 0;
  ballot floor;                        ///< never votes below this ballot
  net::peer_id promised_to = 0;        ///< the only peer whose ballots of floor.term count
  std::optional<acceptance> accepted;  ///< the vote for the round after `newest`, if any
  std::optional<commit_record> newest;
  certificate votes;                 ///< for `newest`
  ledger samples;                    ///< after `newest`
  std::vector<located_peer> others;  ///< where other peers were last seen

  void fields(auto& wire) {
    bool known = newest.has_value(), voted = accepted.has_value(), missing = false;
    wire(run, detail::wide{self}, floor, detail::wide{promised_to}, known);
    if (known && !newest) newest.emplace();
    if (known) wire(detail::record_field{*newest, &votes, missing, {}});
    const detail::base_record base{known ? &*newest : nullptr, known ? newest->chain() : 0};
    wire(voted);
    if (voted && !accepted) accepted.emplace();
    if (voted) wire(accepted->at, detail::record_field{accepted->value, nullptr, missing, base});
    wire.must(!missing);
    const std::vector<net::peer_id> nobody;
    wire(detail::ledger_field{samples, known ? newest->members : nobody}, net::list{others, max_members});
  }
  friend bool operator==(const durable_record&, const durable_record&) = default;
};

/// The record of a peer that has promised nothing yet.
CAUSEWAY_DECL [[nodiscard]] durable_record fresh_record(std::uint64_t run, net::peer_id self);

namespace detail {
inline constexpr std::uint64_t durable_magic = 0x3252424D45574143U;  // "CAWEMBR2"
}

/// The bytes to store, checksum at the end.
CAUSEWAY_DECL [[nodiscard]] std::vector<std::byte> encode(const durable_record& r);

/// errc::corrupt or errc::too_large for anything that `encode` did not write.
CAUSEWAY_DECL [[nodiscard]] result<durable_record> decode_durable_record(std::span<const std::byte> bytes);

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#ifndef CAUSEWAY_COMPILED
#include <causeway/membership/impl/durable_record.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_DURABLE_RECORD_HPP
