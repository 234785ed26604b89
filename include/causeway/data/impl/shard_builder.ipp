// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_DATA_IMPL_SHARD_BUILDER_IPP
#define CAUSEWAY_DATA_IMPL_SHARD_BUILDER_IPP

// Bodies of data/shard_builder.hpp.

#include <causeway/data/shard_builder.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace data {

CAUSEWAY_DECL shard_builder::shard_builder(std::string path, std::string waiting, token_width width,
                                           io::posix_file_system::file_type file)
    : path_{std::move(path)}, waiting_{std::move(waiting)}, width_{width}, file_{std::move(file)} {}

CAUSEWAY_INLINE shard_builder::shard_builder(shard_builder&& other) noexcept
    : path_{std::move(other.path_)},
      waiting_{std::exchange(other.waiting_, {})},
      width_{other.width_},
      file_{std::move(other.file_)},
      size_{other.size_} {}

CAUSEWAY_INLINE shard_builder::~shard_builder() {
  if (!waiting_.empty()) (void)io::posix_file_system{}.unlink(waiting_);
}

CAUSEWAY_DECL result<shard_builder> shard_builder::make(const std::string& path, token_width width) {
  io::posix_file_system files;
  std::string waiting = path + ".tokens." + std::to_string(files.process_id()) + ".tmp";
  CAUSEWAY_ASSIGN(auto file, files.create(waiting));
  return shard_builder{path, std::move(waiting), width, std::move(file)};
}

CAUSEWAY_DECL result<void> shard_builder::add(std::span<const std::int32_t> tokens) {
  CAUSEWAY_EXPECT(file_.has_value());
  io::posix_file_system files;
  const io::byte_sink sink = [&](std::span<const std::byte> bytes) { return files.write(*file_, bytes); };
  CAUSEWAY_TRY(width_ == token_width::two ? detail::store_tokens(tokens, narrow_, sink)
                                          : detail::store_tokens(tokens, wide_, sink));
  size_ += static_cast<std::int64_t>(tokens.size());
  return {};
}

CAUSEWAY_DECL result<void> shard_builder::finish() {
  CAUSEWAY_EXPECT(file_.has_value());
  io::posix_file_system files;
  CAUSEWAY_TRY(files.close(*file_));
  file_.reset();
  io::posix_storage storage;
  CAUSEWAY_ASSIGN(detail::mapped_bytes written, detail::map_whole(waiting_));
  CAUSEWAY_ASSIGN(const token_stream tokens, detail::bare_tokens(std::move(written.owner), written.bytes, width_, path_));
  CAUSEWAY_TRY(write_token_shard(storage, path_, tokens, width_));
  return files.unlink(std::exchange(waiting_, {}));
}

}}}  // namespace causeway::CAUSEWAY_ABI::data

#endif  // CAUSEWAY_DATA_IMPL_SHARD_BUILDER_IPP
