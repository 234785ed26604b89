// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_IMPL_MEMBER_RECORD_IPP
#define CAUSEWAY_TRAIN_IMPL_MEMBER_RECORD_IPP

// Bodies of train/member_record.hpp.

#include <causeway/train/member_record.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace detail {

CAUSEWAY_DECL result<membership::durable_record> read_member_record(io::any_storage& storage, const std::string& folder) {
  CAUSEWAY_ASSIGN(const io::byte_vector bytes, storage.read(folder + "/record"));
  const std::span<const std::byte> all{bytes};
  auto first = membership::decode_durable_record(all.first(all.size() / 2));
  return first ? std::move(first) : membership::decode_durable_record(all.last(all.size() / 2));
}

CAUSEWAY_DECL result<void> write_member_record(io::any_storage& storage, const std::string& folder,
                                               const std::vector<std::byte>& bytes) {
  return storage.write_atomic(folder + "/record", [&](const io::byte_sink& sink) -> result<void> {
    CAUSEWAY_TRY(sink(std::span{bytes}));
    return sink(std::span{bytes});
  });
}

}}}  // namespace causeway::CAUSEWAY_ABI::detail

namespace causeway { inline namespace CAUSEWAY_ABI {

CAUSEWAY_DECL net::peer_id member_identity(io::any_storage storage, const std::string& folder, std::uint64_t run,
                                           net::peer_id fresh) {
  const auto record = detail::read_member_record(storage, folder);
  return record && record->run == run ? record->self : fresh;
}

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_IMPL_MEMBER_RECORD_IPP
