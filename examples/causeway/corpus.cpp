// SPDX-License-Identifier: Apache-2.0
#include "corpus.hpp"

#include <causeway/core/hash.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/data/data_files.hpp>
#include <causeway/data/token_shard.hpp>
#include <causeway/io/file.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "data_paths.hpp"
#include "text_file.hpp"
#include "text_tokens.hpp"

namespace app {
namespace {

using causeway::errc;
using causeway::fail;
namespace data = causeway::data;
namespace io = causeway::io;

causeway::result<void> check_length(const settings& s, const corpus& c, const std::string& path) {
  const std::int64_t train = c.tokens.train.size(), validation = c.tokens.validation.size();
  if (train > s.model.context && validation > s.model.context) return {};
  const std::string what = c.has_own_validation ? std::to_string(train) + " tokens to train on and "
                                                : std::to_string(train + validation) + " tokens leave ";
  return fail(errc::bad_text, path,
              "too short: " + what + std::to_string(validation) + " for validation, less than one sequence of " +
                  std::to_string(s.model.context) +
                  "; give more text, a shorter model.context, or a larger data.validation");
}

// What others fetch the tokens by; none if one of the two is too large.
causeway::result<std::optional<chunk_list>> chunks_of(const text_codec& codec, const data::token_stream& all,
                                                      const std::optional<data::token_stream>& validation) {
  const auto tokens = data::shard_image::make(all, codec.width());
  if (!tokens) return std::optional<chunk_list>{};
  std::optional<data::shard_image> held_out;
  if (validation) {
    CAUSEWAY_ASSIGN(held_out, data::shard_image::make(*validation, codec.width()));
  }
  return std::optional{chunk_list::of(*tokens, held_out)};
}

// `chunks`: where not all tokens can be read.
causeway::result<corpus> assemble(const settings& s, text_codec codec, const data::token_stream& all,
                                  const std::optional<data::token_stream>& validation, const std::string& path,
                                  std::optional<chunk_list> chunks = {}) {
  auto split = validation ? data::token_split{all, *validation} : data::split_fraction(all, s.data.validation);
  corpus c{std::move(codec), std::move(split), static_cast<std::uint64_t>(all.size()), 0, validation.has_value()};
  if (chunks) {
    c.chunks = std::move(chunks);
  } else {
    CAUSEWAY_ASSIGN(c.chunks, chunks_of(c.codec, all, validation));
  }
  c.hash = causeway::mix(c.chunks ? c.chunks->hash() : all.content_hash(), c.codec.hash());
  if (validation && !c.chunks) c.hash = causeway::mix(c.hash, validation->content_hash());
  CAUSEWAY_TRY(check_length(s, c, path));
  return c;
}

// ---- text -----------------------------------------------------------------------------------------------------------

// What the tokens in a run's folder were made from: the text, and how it was cut. Which files a tokenizer of others was in
// is not a part of it; those are compared themselves where they are here.
causeway::result<std::string> key_of(const settings& s, const data_paths& d) {
  std::string key;
  for (const auto* files : {&d.train, d.validation ? &*d.validation : nullptr}) {
    if (files == nullptr) continue;
    CAUSEWAY_ASSIGN(const auto reader, open_documents(s, *files));
    CAUSEWAY_ASSIGN(const std::uint64_t hash, reader.content_hash());
    key += std::to_string(hash) + " " + std::to_string(reader.size()) + " ";
  }
  const std::string size = s.data.tokenizer == "bpe" ? " " + std::to_string(s.data.vocabulary) : "";
  return key + s.data.tokenizer + size + (s.data.special ? " special" : "") + "\n";
}

causeway::result<text_codec> make_codec(const settings& s, const data_paths& d, const prepared_files& files,
                                        std::optional<data::bpe_tokenizer> named) {
  if (s.data.tokenizer == "bytes") return text_codec{s, data::byte_tokenizer{}};
  if (!named && s.data.tokenizer != "bpe") return tokenizer_missing(s);
  if (!named) {
    CAUSEWAY_ASSIGN(named, train_tokenizer(s, d.train));
  }
  io::posix_storage storage;
  CAUSEWAY_TRY(named->save(storage, files.tokenizer));
  return text_codec{s, std::move(*named)};
}

causeway::result<void> write_tokens(const settings& s, text_codec& codec, const data::data_files& from,
                                    const std::string& to) {
  CAUSEWAY_ASSIGN(auto reader, open_documents(s, from));
  CAUSEWAY_ASSIGN(auto shard, data::shard_builder::make(to, codec.width()));
  cutting how{.quiet = s.quiet, .threads = cutting_threads(s)};
  CAUSEWAY_TRY(cut_into_tokens(
      codec, reader, [&](auto tokens) { return shard.add(tokens); }, how));
  if (shard.size() == 0) {
    return fail(errc::bad_text, from.paths.front(), "the text is empty. Give a file with text in it");
  }
  auto finished = shard.finish();
  if (!finished && finished.error().code == errc::too_large) {
    finished.error().message += ": make them with `causeway tokenize`, and give their folder as data.path";
  }
  return finished;
}

// The codec that is kept, if the tokens that are kept with it are those of this text.
std::optional<text_codec> known_codec(const settings& s, const std::string& folder, const std::string& key,
                                      const std::optional<data::bpe_tokenizer>& named) {
  auto kept = text_codec::load(s, folder);
  const auto known = read_text(prepared_files{folder}.key);
  if (!kept || !known || *known != key || (named && named->hash() != kept->hash())) return std::nullopt;
  return std::move(*kept);
}

causeway::result<corpus> corpus_of_text(const settings& s, const data_paths& d, const std::string& folder) {
  const prepared_files files{folder};
  CAUSEWAY_ASSIGN(const std::string key, key_of(s, d));
  CAUSEWAY_ASSIGN(auto named, named_tokenizer(s));
  auto codec = known_codec(s, folder, key, named);
  if (!codec) {
    std::error_code ignored;
    std::filesystem::remove(files.key, ignored);  // what it speaks for is replaced
    std::filesystem::remove(files.validation, ignored);
    CAUSEWAY_ASSIGN(codec, make_codec(s, d, files, std::move(named)));
    CAUSEWAY_TRY(write_tokens(s, *codec, d.train, files.tokens));
    if (d.validation) CAUSEWAY_TRY(write_tokens(s, *codec, *d.validation, files.validation));
    CAUSEWAY_TRY(write_text(files.key, key));
  }
  CAUSEWAY_ASSIGN(const data::token_stream all, data::open_token_shard(files.tokens));
  std::optional<data::token_stream> validation;
  if (d.validation) {
    CAUSEWAY_ASSIGN(validation, data::open_token_shard(files.validation));
  }
  CAUSEWAY_ASSIGN(corpus c, assemble(s, std::move(*codec), all, validation, s.data.path));
  CAUSEWAY_ASSIGN(const auto reader, open_documents(s, d.train));
  c.bytes = reader.size();
  return c;
}

// ---- token shards ---------------------------------------------------------------------------------------------------

// The tokenizer that made the shards: of files, or the one that the run keeps since it began.
causeway::result<text_codec> codec_of_shards(const settings& s, const std::string& folder) {
  if (s.data.tokenizer == "bytes") return text_codec{s, data::byte_tokenizer{}};
  CAUSEWAY_ASSIGN(auto named, named_tokenizer(s));
  if (named) {
    io::posix_storage storage;
    CAUSEWAY_TRY(named->save(storage, prepared_files{folder}.tokenizer));
    return text_codec{s, std::move(*named)};
  }
  if (s.data.tokenizer == "bpe") {
    return fail(errc::invalid_argument, "data.tokenizer",
                "bpe is trained on text, and data.path holds tokens; name the tokenizer that made them with "
                "--data.tokenizer DIR (a folder with tokenizer.json, or with vocab.json and merges.txt), or bytes");
  }
  auto kept = text_codec::load(s, folder);
  if (!kept) return tokenizer_missing(s);
  return kept;
}

causeway::result<data::token_stream> open_shards(const settings& s, const std::vector<std::string>& paths,
                                                 std::int64_t vocabulary) {
  std::vector<data::token_stream> parts;
  for (const std::string& path : paths) {
    CAUSEWAY_ASSIGN(data::token_stream part, data::open_tokens(path, bare_width(s)));
    auto checked = part.check_vocabulary(vocabulary);
    if (!checked) {
      checked.error().where = path + ", " + checked.error().where;
      return checked.error();
    }
    parts.push_back(std::move(part));
  }
  return data::token_stream::joined(parts);
}

causeway::result<corpus> corpus_of_shards(const settings& s, const data_paths& paths, const std::string& folder) {
  CAUSEWAY_ASSIGN(text_codec codec, codec_of_shards(s, folder));
  CAUSEWAY_ASSIGN(const data::token_stream all, open_shards(s, paths.train.paths, codec.vocabulary()));
  std::optional<data::token_stream> validation;
  if (paths.validation) {
    CAUSEWAY_ASSIGN(validation, open_shards(s, paths.validation->paths, codec.vocabulary()));
  }
  return assemble(s, std::move(codec), all, validation, s.data.path);
}

}  // namespace

namespace {

// ---- tokens that come from other peers ------------------------------------------------------------------------------

// What was begun by `fetch_text`: the list of chunks is here, and some of them.
causeway::result<corpus> corpus_of_chunks(const settings& s, const std::string& folder) {
  const prepared_files files{folder};
  io::posix_storage storage;
  CAUSEWAY_ASSIGN(const auto listed, storage.read(files.chunks));
  CAUSEWAY_ASSIGN(chunk_list list, chunk_list::decode(listed));
  CAUSEWAY_ASSIGN(text_codec codec, text_codec::load(s, folder));
  const std::span<const std::uint64_t> hashes{list.hashes};
  const std::size_t split = list.token_chunks();
  CAUSEWAY_ASSIGN(chunk_store tokens, chunk_store::open(files.tokens, list.token_bytes, hashes.first(split)));
  CAUSEWAY_ASSIGN(chunk_store held_out, chunk_store::open(files.validation, list.validation_bytes, hashes.subspan(split)));
  CAUSEWAY_ASSIGN(const data::token_stream all, data::open_token_shard(tokens.path()));
  std::optional<data::token_stream> validation;
  if (list.validation_bytes > 0) {
    CAUSEWAY_ASSIGN(validation, data::open_token_shard(held_out.path()));
  }
  const auto width = static_cast<std::size_t>(codec.width());
  CAUSEWAY_ASSIGN(corpus c, assemble(s, std::move(codec), all, validation, files.chunks, list));
  std::vector<std::string> sources;
  if (!s.net.join.empty()) sources.push_back(s.net.join);
  c.fetcher =
      std::make_shared<token_fetcher>(std::move(list), std::move(tokens), std::move(held_out), width, c.codec.vocabulary(),
                                      c.hash, std::move(sources), std::chrono::seconds{std::max(1U, s.net.patience)});
  return c;
}

std::vector<token_range> ranges_of(std::span<const std::int64_t> firsts, std::int64_t count, std::int64_t shift) {
  std::vector<token_range> ranges;
  for (const std::int64_t first : firsts) ranges.push_back({first + shift, count});
  return ranges;
}

}  // namespace

causeway::result<void> corpus::need_training(std::span<const std::int64_t> firsts, std::int64_t count) const {
  if (!fetcher) return {};
  return fetcher->need(tokens_item, ranges_of(firsts, count, 0));
}

void corpus::want_training(std::span<const std::int64_t> firsts, std::int64_t count) const {
  if (fetcher) fetcher->want(tokens_item, ranges_of(firsts, count, 0));
}

causeway::result<void> corpus::need_validation(std::span<const std::int64_t> firsts, std::int64_t count) const {
  if (!fetcher) return {};
  if (has_own_validation) return fetcher->need(validation_item, ranges_of(firsts, count, 0));
  return fetcher->need(tokens_item, ranges_of(firsts, count, tokens.train.size()));
}

data::token_stream corpus::main_tokens() const {
  if (has_own_validation) return tokens.train;
  return data::token_stream::joined(std::array{tokens.train, tokens.validation});
}

causeway::result<corpus> kept_corpus(const settings& s, const std::string& folder) {
  CAUSEWAY_ASSIGN(text_codec codec, text_codec::load(s, folder));
  const prepared_files files{folder};
  const std::int64_t vocabulary = codec.vocabulary();
  CAUSEWAY_ASSIGN(const data::token_stream all, open_shards(s, {files.tokens}, vocabulary));  // another machine's, maybe
  std::optional<data::token_stream> validation;
  std::error_code ignored;
  if (std::filesystem::exists(files.validation, ignored)) {
    CAUSEWAY_ASSIGN(validation, open_shards(s, {files.validation}, vocabulary));
  }
  return assemble(s, std::move(codec), all, validation, files.tokens);
}

causeway::result<corpus> prepare_corpus(const settings& s, const std::string& folder) {
  if (s.data.path.empty()) {
    auto kept = kept_corpus(s, folder);
    if (kept || kept.error().code != errc::not_found) return kept;
    auto coming = corpus_of_chunks(s, folder);
    if (coming || coming.error().code != errc::not_found) return coming;
    return fail(errc::invalid_argument, "data.path",
                "nothing to train on; give text, JSON lines or token shards, or a folder of them, with --data.path");
  }
  CAUSEWAY_ASSIGN(const data_paths paths, find_data_paths(s));
  if (paths.train.kind == data::data_kind::tokens) return corpus_of_shards(s, paths, folder);
  return corpus_of_text(s, paths, folder);
}

}  // namespace app
