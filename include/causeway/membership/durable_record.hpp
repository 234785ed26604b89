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

namespace causeway::inline CAUSEWAY_ABI::membership {

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

  friend bool operator==(const durable_record&, const durable_record&) = default;
};

/// The record of a peer that has promised nothing yet.
[[nodiscard]] inline durable_record fresh_record(std::uint64_t run, net::peer_id self) {
  durable_record r;
  r.run = run;
  r.self = self;
  return r;
}

namespace detail {
inline constexpr std::uint64_t durable_magic = 0x3252424D45574143U;  // "CAWEMBR2"
}

/// The bytes to store, checksum at the end.
[[nodiscard]] inline std::vector<std::byte> encode(const durable_record& r) {
  net::byte_writer out;
  const detail::base_record base{r.newest ? &*r.newest : nullptr, r.newest ? r.newest->chain() : 0};
  out.put(detail::durable_magic).put(r.run);
  detail::put_wide(out, r.self);
  write(out, r.floor);
  detail::put_wide(out, r.promised_to);
  out.put(static_cast<std::uint8_t>(r.newest.has_value()));
  if (r.newest) detail::put_record(out, *r.newest, r.votes, {});
  out.put(static_cast<std::uint8_t>(r.accepted.has_value()));
  if (r.accepted) {
    write(out, r.accepted->at);
    detail::put_record(out, r.accepted->value, {}, base);
  }
  r.samples.encode(out, r.newest ? r.newest->members : std::vector<net::peer_id>{});
  detail::write_located(out, r.others);
  out.put(hash_bytes(out.bytes()));
  return std::move(out).take();
}

/// errc::corrupt or errc::too_large for anything that `encode` did not write.
[[nodiscard]] inline result<durable_record> decode_durable_record(std::span<const std::byte> bytes) {
  if (bytes.size() < 16) return fail(errc::corrupt, "membership record", "it is too short to be one");
  net::byte_reader sum{bytes.last(8)};
  if (sum.get<std::uint64_t>() != hash_bytes(bytes.first(bytes.size() - 8))) {
    return fail(errc::corrupt, "membership record", "its checksum is wrong; delete it, and this peer joins as a new one");
  }
  net::byte_reader in{bytes.first(bytes.size() - 8)};
  if (in.get<std::uint64_t>() != detail::durable_magic) {
    return fail(errc::version_mismatch, "membership record", "another version wrote it, or something else");
  }
  durable_record r;
  r.run = in.get<std::uint64_t>();
  r.self = detail::get_wide(in);
  r.floor = read_ballot(in);
  r.promised_to = detail::get_wide(in);
  if (in.get<std::uint8_t>() != 0) {
    auto newest = detail::get_record(in, {});
    if (newest) r.newest = std::move(newest->record);
    if (newest) r.votes = std::move(newest->votes);
  }
  const detail::base_record base{r.newest ? &*r.newest : nullptr, r.newest ? r.newest->chain() : 0};
  if (in.get<std::uint8_t>() != 0) {
    const ballot at = read_ballot(in);
    auto value = detail::get_record(in, base);
    if (value) r.accepted = acceptance{at, std::move(value->record)};
    if (!value) in.refuse();
  }
  r.samples = ledger::decode(in, r.newest ? r.newest->members : std::vector<net::peer_id>{});
  r.others = detail::read_located(in);
  CAUSEWAY_TRY(in.finish("membership record"));
  return r;
}

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_DURABLE_RECORD_HPP
