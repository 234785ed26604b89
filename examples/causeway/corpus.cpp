// SPDX-License-Identifier: Apache-2.0
#include "corpus.hpp"

#include <causeway/core/hash.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/data/bpe_trainer.hpp>
#include <causeway/data/text.hpp>
#include <causeway/data/token_shard.hpp>
#include <causeway/io/file.hpp>

#include <cstdio>
#include <utility>

#include "starting_model.hpp"

namespace app {
namespace {

using causeway::errc;
using causeway::fail;
namespace data = causeway::data;
namespace io = causeway::io;

// What the files in a run's folder were made from: the text, and how it was cut into tokens.
std::string key_of(const settings& s, const std::string& text) {
  const auto vocabulary = s.data.tokenizer == "bpe"     ? static_cast<std::uint64_t>(s.data.vocabulary)
                          : s.data.tokenizer == "model" ? causeway::hash_text(s.model.start)
                                                        : 0;
  return std::to_string(causeway::mix(causeway::hash_text(text), causeway::hash_text(s.data.tokenizer), vocabulary)) + " " +
         std::to_string(text.size()) + "\n";
}

std::string read_text(const std::string& path) {
  io::posix_storage storage;
  const auto bytes = storage.read(path);
  return bytes ? std::string{reinterpret_cast<const char*>(bytes->data()), bytes->size()} : std::string{};
}

causeway::result<text_codec> make_codec(const settings& s, const std::string& text, const prepared_files& files) {
  if (s.data.tokenizer == "bytes") return text_codec{data::byte_tokenizer{}};
  if (s.data.tokenizer == "model") {
    CAUSEWAY_ASSIGN(auto stored, tokenizer_of_model(s));
    io::posix_storage storage;
    CAUSEWAY_TRY(stored.save(storage, files.tokenizer));
    return text_codec{std::move(stored)};
  }
  if (s.data.vocabulary < 257 || s.data.vocabulary > 65536) {
    return fail(errc::invalid_argument, "data.vocabulary", "use 257 to 65536: the first 256 tokens are the bytes");
  }
  if (!s.quiet) std::printf("training a tokenizer with %lld tokens ...\n", static_cast<long long>(s.data.vocabulary));
  CAUSEWAY_ASSIGN(auto trained, data::train_bpe(text, {.merges = static_cast<std::size_t>(s.data.vocabulary - 256),
                                                       .end_of_text = false}));
  io::posix_storage storage;
  CAUSEWAY_TRY(trained.save(storage, files.tokenizer));
  return text_codec{std::move(trained)};
}

causeway::result<void> check_length(const settings& s, const corpus& c, std::int64_t size, const std::string& path) {
  if (c.tokens.train.size() <= s.model.context || c.tokens.validation.size() <= s.model.context) {
    return fail(errc::bad_text, path,
                "too short: " + std::to_string(size) + " tokens leave " + std::to_string(c.tokens.validation.size()) +
                    " for validation, less than one sequence of " + std::to_string(s.model.context) +
                    "; give more text, a shorter model.context, or a larger data.validation");
  }
  return {};
}

}  // namespace

causeway::result<text_codec> text_codec::load(const settings& s, const std::string& folder) {
  if (s.data.tokenizer == "bytes") return text_codec{data::byte_tokenizer{}};
  io::posix_storage storage;
  CAUSEWAY_ASSIGN(auto loaded, data::bpe_tokenizer::load(storage, prepared_files{folder}.tokenizer));
  return text_codec{std::move(loaded)};
}

std::int64_t text_codec::vocabulary() const {
  return std::visit([](const auto& t) { return t.vocabulary(); }, tokenizer_);
}

std::vector<std::int32_t> text_codec::encode(std::string_view text) {
  std::vector<std::int32_t> tokens;
  std::visit([&](auto& t) { t.encode(text, tokens); }, tokenizer_);
  return tokens;
}

std::string text_codec::bytes_of(std::span<const std::int32_t> tokens) const {
  std::string text;
  const auto outcome = std::visit([&](const auto& t) { return t.decode(tokens, text); }, tokenizer_);
  return outcome ? text : outcome.error().text();
}

std::string text_codec::shown(std::string_view bytes) {
  std::string text;  // a model of bytes may say what is not UTF-8
  while (const auto bad = data::first_invalid_utf8(bytes)) {
    text += bytes.substr(0, *bad);
    text += "\xEF\xBF\xBD";
    bytes.remove_prefix(*bad + 1);
  }
  return text += bytes;
}

data::bpe_tokenizer text_codec::merges() const {
  const auto* const merged = std::get_if<data::bpe_tokenizer>(&tokenizer_);
  return merged == nullptr ? data::bpe_tokenizer{} : *merged;
}

std::uint64_t text_codec::hash() const {
  return std::visit([](const auto& t) { return t.hash(); }, tokenizer_);
}

std::string run_folder(const settings& s) { return s.run.directory + "/" + s.run.name; }

causeway::result<corpus> kept_corpus(const settings& s, const std::string& folder) {
  CAUSEWAY_ASSIGN(text_codec codec, text_codec::load(s, folder));
  const std::string path = prepared_files{folder}.tokens;
  CAUSEWAY_ASSIGN(const data::token_stream tokens, data::open_token_shard(path));
  CAUSEWAY_TRY(tokens.check_vocabulary(codec.vocabulary()));  // another machine may have sent them
  corpus c{std::move(codec), data::split_fraction(tokens, s.data.validation), static_cast<std::uint64_t>(tokens.size()), 0};
  c.hash = causeway::mix(tokens.content_hash(), c.codec.hash());
  CAUSEWAY_TRY(check_length(s, c, tokens.size(), path));
  return c;
}

causeway::result<corpus> prepare_corpus(const settings& s, const std::string& folder) {
  if (s.data.path.empty()) {
    auto kept = kept_corpus(s, folder);
    if (kept || kept.error().code != errc::not_found) return kept;
    return fail(errc::invalid_argument, "data.path", "no text to train on; give a UTF-8 file or a folder with --data.path");
  }
  const auto least = static_cast<std::size_t>(s.model.context) * 4;
  CAUSEWAY_ASSIGN(const std::string text, data::load_text(s.data.path, {.minimum_bytes = least}));
  const prepared_files files{folder};
  const std::string key = key_of(s, text);
  io::posix_storage storage;

  auto codec = text_codec::load(s, folder);
  const bool known = codec && read_text(files.key) == key;
  if (!known) {
    codec = make_codec(s, text, files);
    if (!codec) return codec.error();
    const data::token_stream tokens{codec->encode(text)};
    const auto width = codec->vocabulary() <= 65536 ? data::token_width::two : data::token_width::four;
    CAUSEWAY_TRY(data::write_token_shard(storage, files.tokens, tokens, width));
    CAUSEWAY_TRY(storage.write_atomic(files.key, io::produce(key)));
  }
  CAUSEWAY_ASSIGN(const data::token_stream tokens, data::open_token_shard(files.tokens));
  corpus c{std::move(*codec), data::split_fraction(tokens, s.data.validation), text.size(), 0};
  c.hash = causeway::mix(tokens.content_hash(), c.codec.hash());
  CAUSEWAY_TRY(check_length(s, c, tokens.size(), s.data.path));
  return c;
}

}  // namespace app
