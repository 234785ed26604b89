// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_DATA_IMPL_TOKEN_SHARD_IPP
#define CAUSEWAY_DATA_IMPL_TOKEN_SHARD_IPP

#include <causeway/data/token_shard.hpp>

#include <cstring>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace data { namespace detail {

CAUSEWAY_DECL result<shard_kind> checked_shard(const shard_header& header, std::size_t file_bytes,
                                               const std::string& path) {
  const auto kind =
      std::find_if(shard_kinds.begin(), shard_kinds.end(), [&](const shard_kind& k) { return k.magic == header[0]; });
  if (kind == shard_kinds.end()) {
    return fail(errc::corrupt, path,
                "this is not a token shard: it starts with " + std::to_string(header[0]) +
                    ", not 20240520 or 20240801. Make shards with llm.c's data scripts or with write_token_shard");
  }
  if (kind->version != header[1]) {
    return fail(errc::version_mismatch, path,
                "token shard version " + std::to_string(header[1]) + "; version " + std::to_string(kind->version) +
                    " is known for magic " + std::to_string(kind->magic) + ". Make the shard again");
  }
  const std::size_t held = (file_bytes - shard_header_bytes) / static_cast<std::size_t>(kind->width);
  const std::size_t rest = (file_bytes - shard_header_bytes) % static_cast<std::size_t>(kind->width);
  if (header[2] < 0 || held != static_cast<std::size_t>(header[2]) || rest != 0) {
    return fail(errc::corrupt, path,
                "the header promises " + std::to_string(header[2]) + " tokens, the file holds " + std::to_string(held) +
                    (rest != 0 ? " and a part of one" : "") + ". Copy or make the shard again");
  }
  return *kind;
}

CAUSEWAY_DECL result<void> check_fits_shard(std::int64_t tokens, const std::string& path) {
  if (tokens <= std::numeric_limits<std::int32_t>::max()) return {};
  return fail(errc::too_large, path, "a shard holds less than 2,147,483,648 tokens. Cut the stream into several shards");
}

CAUSEWAY_DECL shard_header header_of(std::int64_t tokens, token_width width) {
  const shard_kind& kind = shard_kinds[width == token_width::two ? 0 : 1];
  return {kind.magic, kind.version, static_cast<std::int32_t>(tokens)};
}

CAUSEWAY_DECL result<mapped_bytes> map_whole(const std::string& path) {
  CAUSEWAY_ASSIGN(io::mapped_file file, io::mapped_file::open(path));
  auto owner = std::make_shared<io::mapped_file>(std::move(file));
  const std::span<const std::byte> bytes = owner->bytes();
  return mapped_bytes{std::move(owner), bytes};
}

inline constexpr std::int32_t evaluation_magic = 20240522;

/// What a file of llm.c begins with, of either kind, or for its evaluations: no file of bare tokens.
inline bool begins_as_shard(std::span<const std::byte> bytes) noexcept {
  std::int32_t magic = 0;
  if (bytes.size() < sizeof magic) return false;
  std::memcpy(&magic, bytes.data(), sizeof magic);
  return magic == evaluation_magic ||
         std::any_of(shard_kinds.begin(), shard_kinds.end(), [&](const shard_kind& k) { return k.magic == magic; });
}

inline result<token_stream> shard_of(std::shared_ptr<const void> owner, std::span<const std::byte> bytes,
                                     const std::string& path) {
  shard_header header{};
  if (bytes.size() < sizeof header) {
    return fail(errc::corrupt, path, "too short for a token shard: the header alone has 1,024 bytes");
  }
  std::memcpy(header.data(), bytes.data(), sizeof header);
  CAUSEWAY_ASSIGN(const shard_kind kind, checked_shard(header, bytes.size(), path));
  return token_stream{std::move(owner), bytes.data() + shard_header_bytes, header[2], kind.width};
}

CAUSEWAY_DECL result<token_stream> bare_tokens(std::shared_ptr<const void> owner, std::span<const std::byte> bytes,
                                               token_width width, const std::string& path) {
  const auto each = static_cast<std::size_t>(width);
  if (bytes.size() % each != 0) {
    return fail(errc::corrupt, path,
                "holds " + std::to_string(bytes.size()) + " bytes, which are no whole number of tokens of " +
                    std::to_string(each) + " bytes. Copy or make it again, or give the other width");
  }
  return token_stream{std::move(owner), bytes.data(), static_cast<std::int64_t>(bytes.size() / each), width};
}

}}}}  // namespace causeway::CAUSEWAY_ABI::data::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace data {

CAUSEWAY_DECL result<token_stream> open_token_shard(const std::string& path) {
  CAUSEWAY_ASSIGN(detail::mapped_bytes file, detail::map_whole(path));
  return detail::shard_of(std::move(file.owner), file.bytes, path);
}

CAUSEWAY_DECL result<token_stream> open_tokens(const std::string& path, std::optional<token_width> bare) {
  CAUSEWAY_ASSIGN(detail::mapped_bytes file, detail::map_whole(path));
  return tokens_of_file(std::move(file.owner), file.bytes, bare, path);
}

CAUSEWAY_DECL result<token_stream> tokens_of_file(std::shared_ptr<const void> owner, std::span<const std::byte> bytes,
                                                  std::optional<token_width> bare, const std::string& path) {
  if (detail::begins_as_shard(bytes)) return detail::shard_of(std::move(owner), bytes, path);
  if (bare) return detail::bare_tokens(std::move(owner), bytes, *bare, path);
  return fail(errc::unsupported, path,
              "has no header of llm.c. If it holds tokens and nothing else, as nanoGPT writes them, say how wide they are "
              "(data.token_type u16 or u32)");
}

CAUSEWAY_DECL result<shard_image> shard_image::make(token_stream tokens, token_width width) {
  CAUSEWAY_TRY(detail::check_fits_shard(tokens.size(), "tokens"));
  return shard_image{std::move(tokens), width};
}

CAUSEWAY_DECL std::uint64_t shard_image::size() const noexcept {
  return detail::shard_header_bytes + static_cast<std::uint64_t>(tokens_.size()) * static_cast<std::uint64_t>(width_);
}

CAUSEWAY_DECL io::byte_vector shard_image::read(std::uint64_t offset, std::size_t count) const {
  io::byte_vector out;
  if (offset >= size()) return out;
  count = static_cast<std::size_t>(std::min<std::uint64_t>(count, size() - offset));
  const std::size_t each = static_cast<std::size_t>(width_), head = detail::shard_header_bytes;
  const std::uint64_t end = offset + count;
  const detail::shard_header header = detail::header_of(tokens_.size(), width_);
  const auto header_bytes = std::as_bytes(std::span{header});
  for (std::uint64_t at = offset; at < std::min<std::uint64_t>(end, head); ++at) out.push_back(header_bytes[at]);
  if (end <= head) return out;

  const std::uint64_t begin = std::max<std::uint64_t>(offset, head) - head;  // in the tokens' bytes
  const std::uint64_t first = begin / each, last = (end - head + each - 1) / each;
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(last - first));
  tokens_.read(static_cast<std::int64_t>(first), tokens);
  for (std::uint64_t at = begin; at < end - head; ++at) {
    const auto token = static_cast<std::uint32_t>(tokens[static_cast<std::size_t>(at / each - first)]);
    out.push_back(static_cast<std::byte>(token >> (8 * (at % each))));
  }
  return out;
}

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

#endif  // CAUSEWAY_DATA_IMPL_TOKEN_SHARD_IPP
