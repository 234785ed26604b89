// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_IO_IMPL_STORAGE_IPP
#define CAUSEWAY_IO_IMPL_STORAGE_IPP

#include <causeway/io/storage.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace io {

CAUSEWAY_DECL byte_producer produce(std::span<const std::byte> content) {
  return [content](const byte_sink& sink) { return sink(content); };
}

CAUSEWAY_DECL result<void> any_storage::write_atomic(const std::string& path, const byte_producer& producer) {
  return state_->write_atomic(path, producer);
}

}}}  // namespace causeway::CAUSEWAY_ABI::io

#endif  // CAUSEWAY_IO_IMPL_STORAGE_IPP
