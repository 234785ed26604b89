// SPDX-License-Identifier: Apache-2.0
#include "run_notice.hpp"

#include <causeway/core/rng.hpp>
#include <causeway/data/token_shard.hpp>
#include <causeway/io/file.hpp>
#include <causeway/net/codec.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "report.hpp"
#include "text_file.hpp"
#include "text_tokens.hpp"
#include "token_chunks.hpp"

namespace app {
namespace {

namespace fs = std::filesystem;
namespace net = causeway::net;
using causeway::errc;
using causeway::fail;
using causeway::data::shard_image;

constexpr std::size_t longest_settings = std::size_t{48} << 10U;

std::uint64_t size_of(const std::string& path) {
  std::error_code failure;
  const auto size = fs::file_size(path, failure);
  return failure ? 0 : size;
}

std::vector<std::byte> read_piece(const std::string& path, std::uint64_t offset) {
  std::vector<std::byte> piece(net::max_piece_bytes);
  std::ifstream file{path, std::ios::binary};
  if (!file.seekg(static_cast<std::streamoff>(std::min<std::uint64_t>(offset, run_notice::longest_tokens)))) return {};
  file.read(reinterpret_cast<char*>(piece.data()), static_cast<std::streamsize>(piece.size()));
  piece.resize(static_cast<std::size_t>(file.gcount()));
  return piece;
}

// To disk piece by piece, whole or not at all.
causeway::result<void> fetch_file(net::inquiry& from, std::uint32_t item, std::uint64_t length, const std::string& path) {
  causeway::io::posix_storage storage;
  return storage.write_atomic(path, [&](const causeway::io::byte_sink& sink) { return from.read(item, 0, length, sink); });
}

std::uint64_t list_bytes(const run_notice& notice) {
  const std::size_t chunks = chunk_list::chunks_in(notice.token_bytes) + chunk_list::chunks_in(notice.validation_bytes);
  return (2 + chunks) * sizeof(std::uint64_t);
}

// The tokens come while the run trains, but for the beginnings of both files, which say what they are.
causeway::result<void> begin_to_fetch(net::inquiry& from, const chunk_list& list, const prepared_files& files) {
  const auto nothing = [](std::size_t) {};
  const std::span<const std::uint64_t> hashes{list.hashes};
  const std::size_t split = list.token_chunks();
  CAUSEWAY_ASSIGN(chunk_store tokens, chunk_store::open(files.tokens, list.token_bytes, hashes.first(split)));
  CAUSEWAY_ASSIGN(chunk_store held_out, chunk_store::open(files.validation, list.validation_bytes, hashes.subspan(split)));
  if (!tokens.has(0)) CAUSEWAY_TRY(tokens.fetch(from, tokens_item, 0, 1, nothing));
  if (held_out.chunks() > 0 && !held_out.has(0)) CAUSEWAY_TRY(held_out.fetch(from, validation_item, 0, 1, nothing));
  CAUSEWAY_TRY(held_out.finish());
  return tokens.finish();  // a short text is here already
}

// What is not here yet of all tokens and of those for validation.
causeway::result<void> fetch_all(net::inquiry& from, const chunk_list& list, const prepared_files& files, bool quiet) {
  const std::span<const std::uint64_t> hashes{list.hashes};
  const std::size_t split = list.token_chunks();
  CAUSEWAY_ASSIGN(chunk_store tokens, chunk_store::open(files.tokens, list.token_bytes, hashes.first(split)));
  CAUSEWAY_ASSIGN(chunk_store held_out, chunk_store::open(files.validation, list.validation_bytes, hashes.subspan(split)));
  const std::uint64_t missing = tokens.missing_bytes() + held_out.missing_bytes();
  const std::uint64_t all = list.token_bytes + list.validation_bytes;
  if (!quiet) {
    std::printf("fetching %s of the text (%s)\n", human_bytes(static_cast<double>(missing)).c_str(),
                human_bytes(static_cast<double>(all)).c_str());
    std::fflush(stdout);
  }
  byte_line line{"fetching", quiet};
  std::uint64_t done = 0;
  const auto came = [&](std::size_t bytes) { line.show(done += bytes, missing); };
  CAUSEWAY_TRY(held_out.fetch_all(from, validation_item, came));
  return tokens.fetch_all(from, tokens_item, came);
}

bool is_here(const settings& s, const std::string& folder, std::uint64_t hash) {
  const auto kept = kept_corpus(s, folder);
  return kept && kept->hash == hash;
}

}  // namespace

std::vector<std::byte> run_notice::encode() const {
  net::byte_writer out;
  out.put(text_hash).put(tokenizer_bytes).put(token_bytes).put(validation_bytes).put_text(settings);
  return std::move(out).take();
}

causeway::result<run_notice> run_notice::decode(std::span<const std::byte> bytes) {
  net::byte_reader in{bytes};
  run_notice n;
  n.text_hash = in.get<std::uint64_t>();
  n.tokenizer_bytes = in.get<std::uint64_t>();
  n.token_bytes = in.get<std::uint64_t>();
  n.validation_bytes = in.get<std::uint64_t>();
  const bool short_enough = n.token_bytes <= longest_tokens && n.validation_bytes <= longest_tokens;
  if (n.tokenizer_bytes > longest_tokenizer || !short_enough) in.refuse();
  const auto text = in.get_bytes(longest_settings);
  n.settings.assign(reinterpret_cast<const char*>(text.data()), text.size());
  CAUSEWAY_TRY(in.finish("what the run says of itself"));
  return n;
}

namespace {

// Of a peer that has all tokens, or those that have come.
causeway::result<net::piece_source> token_pieces(const corpus& data) {
  if (data.fetcher) {
    return net::piece_source{
        [fetcher = data.fetcher](std::uint32_t item, std::uint64_t offset) { return fetcher->piece(item, offset); }};
  }
  CAUSEWAY_ASSIGN(const auto tokens, shard_image::make(data.main_tokens(), data.codec.width()));
  std::optional<shard_image> held_out;
  if (data.has_own_validation) {
    CAUSEWAY_ASSIGN(held_out, shard_image::make(data.tokens.validation, data.codec.width()));
  }
  return net::piece_source{[tokens, held_out](std::uint32_t item, std::uint64_t offset) {
    if (item == tokens_item) return tokens.read(offset, net::max_piece_bytes);
    return held_out ? held_out->read(offset, net::max_piece_bytes) : std::vector<std::byte>{};
  }};
}

}  // namespace

causeway::result<net::piece_source> tell_newcomers(settings& s, const std::string& folder, const corpus& data) {
  const prepared_files files{folder};
  run_notice notice{.text_hash = data.hash, .settings = to_toml(s, true)};
  if (s.data.tokenizer != "bytes") notice.tokenizer_bytes = size_of(files.tokenizer);
  std::vector<std::byte> list;
  net::piece_source pieces;
  if (data.chunks) {
    notice.token_bytes = data.chunks->token_bytes;
    notice.validation_bytes = data.chunks->validation_bytes;
    list = data.chunks->encode();
    CAUSEWAY_ASSIGN(pieces, token_pieces(data));
  }
  std::vector<std::byte> first = notice.encode();
  if (first.size() > net::max_piece_bytes) return fail(errc::too_large, folder, "its settings are too long to be sent");
  return net::piece_source{[files, pieces = std::move(pieces), first = std::move(first), list = std::move(list)](
                               std::uint32_t item, std::uint64_t offset) {
    if (item == notice_item) return first;
    if (item == tokenizer_item) return read_piece(files.tokenizer, offset);
    if (item == hashes_item) {
      const auto begin = static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(offset, list.size()));
      const auto end = std::min<std::ptrdiff_t>(begin + std::ptrdiff_t{net::max_piece_bytes}, std::ssize(list));
      return std::vector<std::byte>{list.begin() + begin, list.begin() + end};
    }
    const bool tokens = item == tokens_item || item == validation_item;
    return tokens && pieces ? pieces(item, offset) : std::vector<std::byte>{};
  }};
}

causeway::result<void> fetch_text(net::inquiry& from, const run_notice& notice, const settings& s,
                                  const std::string& folder) {
  if (is_here(s, folder, notice.text_hash)) return {};
  if (notice.token_bytes == 0) {
    return fail(errc::too_large, "data.path", "the run's tokens are too many to be sent; give them here with --data.path");
  }
  const prepared_files files{folder};
  std::error_code ignored;
  for (const auto* path : {&files.key, &files.tokens, &files.validation}) fs::remove(*path, ignored);  // of another text
  if (notice.tokenizer_bytes > 0) {
    CAUSEWAY_TRY(fetch_file(from, tokenizer_item, notice.tokenizer_bytes, files.tokenizer));
  }
  CAUSEWAY_TRY(fetch_file(from, hashes_item, list_bytes(notice), files.chunks));
  CAUSEWAY_ASSIGN(const std::string listed, read_text(files.chunks));
  CAUSEWAY_ASSIGN(const chunk_list list, chunk_list::decode(std::as_bytes(std::span{listed})));
  CAUSEWAY_ASSIGN(const text_codec codec, text_codec::load(s, folder));
  if (causeway::mix(list.hash(), codec.hash()) == notice.text_hash) {
    if (s.fault.policy != "quorum") return fetch_all(from, list, files, s.quiet);
    if (!s.quiet) {
      std::printf("the text (%s) comes from other peers while this one trains\n",
                  human_bytes(static_cast<double>(list.token_bytes + list.validation_bytes)).c_str());
    }
    return begin_to_fetch(from, list, files);
  }
  for (const auto* path : {&files.chunks, &files.tokenizer}) fs::remove(*path, ignored);
  return fail(
      errc::corrupt, folder,
      "the text that came is not the run's: its hash differs; join at another peer, or give the text with --data.path");
}

}  // namespace app
