// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_DATA_TOKEN_SHARD_HPP
#define CAUSEWAY_DATA_TOKEN_SHARD_HPP

// The `.bin` token files of llm.c: a header of 256 int32 (magic, version, number of tokens, zeros), then the tokens, all
// little-endian. Two kinds: 20240520 version 1 with uint16 (GPT-2) and 20240801 version 7 with uint32 (Llama 3). Read
// through a memory map: opening a shard of any size costs nothing. See docs/reference/token_shards.md.

#include <causeway/core/result.hpp>
#include <causeway/data/token_stream.hpp>
#include <causeway/io/file.hpp>
#include <causeway/io/storage.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::data {

namespace detail {

struct shard_kind {
  std::int32_t magic;
  std::int32_t version;
  token_width width;
};

constexpr std::array<shard_kind, 2> shard_kinds{{{20240520, 1, token_width::two}, {20240801, 7, token_width::four}}};
constexpr std::size_t shard_header_bytes = 256 * sizeof(std::int32_t);

using shard_header = std::array<std::int32_t, 256>;

/// The kind of shard, once header and file size fit each other.
inline result<shard_kind> checked_shard(const shard_header& header, std::size_t file_bytes, const std::string& path) {
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

/// Tokens as numbers of type T, in parts so that a large stream needs little memory.
template <class T>
result<void> write_tokens(const token_stream& tokens, const io::byte_sink& sink) {
  constexpr std::int64_t part = std::int64_t{1} << 16U;
  std::vector<std::int32_t> wide;
  std::vector<T> stored;
  for (std::int64_t at = 0; at < tokens.size(); at += part) {
    wide.resize(static_cast<std::size_t>(std::min(part, tokens.size() - at)));
    tokens.read(at, wide);
    stored.clear();
    for (const std::int32_t token : wide) {
      if (token < 0 || static_cast<std::uint32_t>(token) > std::numeric_limits<T>::max()) {
        return fail(errc::invalid_argument, "token " + std::to_string(token),
                    "does not fit into " + std::to_string(sizeof(T)) + " bytes. Write the shard with four bytes per token");
      }
      stored.push_back(static_cast<T>(token));
    }
    CAUSEWAY_TRY(sink(std::as_bytes(std::span{stored})));
  }
  return {};
}

}  // namespace detail

/// Maps the shard at `path`. Errors: errc::not_found, errc::corrupt (magic, size), errc::version_mismatch. The tokens
/// themselves are not read: `token_stream::check_vocabulary` does that.
inline result<token_stream> open_token_shard(const std::string& path) {
  CAUSEWAY_ASSIGN(io::mapped_file file, io::mapped_file::open(path));
  const std::span<const std::byte> bytes = file.bytes();
  detail::shard_header header{};
  if (bytes.size() < sizeof header) {
    return fail(errc::corrupt, path, "too short for a token shard: the header alone has 1,024 bytes");
  }
  std::memcpy(header.data(), bytes.data(), sizeof header);
  CAUSEWAY_ASSIGN(const detail::shard_kind kind, detail::checked_shard(header, bytes.size(), path));
  auto owner = std::make_shared<io::mapped_file>(std::move(file));
  const std::byte* first = owner->bytes().data() + detail::shard_header_bytes;
  return token_stream{std::move(owner), first, header[2], kind.width};
}

/// Writes a shard that `open_token_shard` and llm.c read. Errors: errc::invalid_argument (a token that does not fit),
/// errc::too_large (2³¹ tokens or more), and those of the storage.
template <io::Storage S>
result<void> write_token_shard(S& storage, const std::string& path, const token_stream& tokens, token_width width) {
  if (tokens.size() > std::numeric_limits<std::int32_t>::max()) {
    return fail(errc::too_large, path, "a shard holds less than 2,147,483,648 tokens. Cut the stream into several shards");
  }
  const detail::shard_kind& kind = detail::shard_kinds[width == token_width::two ? 0 : 1];
  detail::shard_header header{kind.magic, kind.version, static_cast<std::int32_t>(tokens.size())};
  return storage.write_atomic(path, [&](const io::byte_sink& sink) -> result<void> {
    CAUSEWAY_TRY(sink(std::as_bytes(std::span{header})));
    if (width == token_width::two) return detail::write_tokens<std::uint16_t>(tokens, sink);
    return detail::write_tokens<std::uint32_t>(tokens, sink);
  });
}

}  // namespace causeway::inline CAUSEWAY_ABI::data

#endif  // CAUSEWAY_DATA_TOKEN_SHARD_HPP
