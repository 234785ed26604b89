// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_IMPL_DURABLE_RECORD_IPP
#define CAUSEWAY_MEMBERSHIP_IMPL_DURABLE_RECORD_IPP

#include <causeway/membership/durable_record.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

CAUSEWAY_DECL durable_record fresh_record(std::uint64_t run, net::peer_id self) {
  durable_record r;
  r.run = run;
  r.self = self;
  return r;
}

CAUSEWAY_DECL std::vector<std::byte> encode(const durable_record& r) {
  net::byte_writer out;
  out.put(detail::durable_magic);
  net::put_fields(out, r);
  out.put(hash_bytes(out.bytes()));
  return std::move(out).take();
}

CAUSEWAY_DECL result<durable_record> decode_durable_record(std::span<const std::byte> bytes) {
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
  net::get_fields(in, r);
  CAUSEWAY_TRY(in.finish("membership record"));
  return r;
}

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_IMPL_DURABLE_RECORD_IPP
