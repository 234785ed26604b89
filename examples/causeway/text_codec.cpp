// SPDX-License-Identifier: Apache-2.0
#include "text_codec.hpp"

#include <causeway/data/data_files.hpp>
#include <causeway/data/text.hpp>
#include <causeway/formats/tokenizer_folder.hpp>
#include <causeway/io/file.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include "starting_model.hpp"

namespace app {
namespace {

using causeway::errc;
using causeway::fail;
namespace data = causeway::data;
namespace fs = std::filesystem;
namespace io = causeway::io;

causeway::result<data::bpe_tokenizer> stored_tokenizer(const std::string& folder) {
  std::error_code ignored;
  io::posix_storage storage;
  if (fs::exists(tokenizer_file(folder), ignored)) return data::bpe_tokenizer::load(storage, tokenizer_file(folder));
  return causeway::formats::read_tokenizer_of(folder);
}

bool has_tokenizer(const std::string& folder) {
  constexpr std::array names{"tokenizer.bpe", "tokenizer.json", "vocab.json", "tokenizer.model"};
  std::error_code ignored;
  return std::any_of(names.begin(), names.end(), [&](const char* n) { return fs::exists(folder + "/" + n, ignored); });
}

// The folder of the first shard, if it has a tokenizer.
std::optional<std::string> tokenizer_beside(const std::string& path) {
  if (path.empty()) return std::nullopt;
  const auto files = data::find_data(path);
  if (!files || files->kind != data::data_kind::tokens) return std::nullopt;
  const fs::path first = files->paths.front();
  std::string folder = first.has_parent_path() ? first.parent_path().string() : ".";
  if (!has_tokenizer(folder)) return std::nullopt;
  return folder;
}

}  // namespace

std::string tokenizer_file(const std::string& folder) { return folder + "/tokenizer.bpe"; }

causeway::result<void> choose_tokenizer(settings& s, const origins& from) {
  constexpr std::array words{"bytes", "bpe", "model", "folder"};
  if (std::find(words.begin(), words.end(), s.data.tokenizer) == words.end()) {
    std::error_code ignored;
    if (!fs::is_directory(s.data.tokenizer, ignored)) {
      return fail(errc::invalid_argument, "data.tokenizer",
                  "'" + s.data.tokenizer + "' is no folder; use bytes, bpe, model, or a folder with a tokenizer");
    }
    s.data.tokenizer_folder = std::exchange(s.data.tokenizer, "folder");
  }
  const bool open = !from.contains("data.tokenizer") && s.model.init.empty();
  if (!s.data.tokenizer_folder.empty() || (!open && s.data.tokenizer != "folder")) return {};
  const auto beside = tokenizer_beside(s.data.path);
  if (!beside) return {};
  s.data.tokenizer_folder = *beside;
  if (open) s.data.tokenizer = "folder";
  return {};
}

causeway::result<std::optional<data::bpe_tokenizer>> named_tokenizer(const settings& s) {
  const std::string folder = s.data.tokenizer == "model"    ? s.model.init
                             : s.data.tokenizer == "folder" ? s.data.tokenizer_folder
                                                            : "";
  if (folder.empty()) return std::optional<data::bpe_tokenizer>{};
  CAUSEWAY_ASSIGN(auto stored, stored_tokenizer(folder));
  return std::optional{std::move(stored)};
}

causeway::error tokenizer_missing(const settings& s) {
  if (s.data.tokenizer == "model") return tokenizer_of_model(s).error();
  return fail(
      errc::not_found, "data.tokenizer",
      "is one of files that are not known here; name their folder with --data.tokenizer DIR, or leave data.path out "
      "to get the tokens from another peer");
}

causeway::result<text_codec> text_codec::load(const settings& s, const std::string& folder) {
  if (s.data.tokenizer == "bytes") return text_codec{s, data::byte_tokenizer{}};
  io::posix_storage storage;
  CAUSEWAY_ASSIGN(auto loaded, data::bpe_tokenizer::load(storage, tokenizer_file(folder)));
  return text_codec{s, std::move(loaded)};
}

std::int64_t text_codec::vocabulary() const {
  return std::visit([](const auto& t) { return t.vocabulary(); }, tokenizer_);
}

std::optional<std::int32_t> text_codec::end_of_text() const {
  return std::visit([](const auto& t) { return t.end_of_text(); }, tokenizer_);
}

std::vector<std::int32_t> text_codec::encode(std::string_view text) {
  std::vector<std::int32_t> tokens;
  encode(text, tokens);
  return tokens;
}

void text_codec::encode(std::string_view text, std::vector<std::int32_t>& tokens) {
  auto* const merged = std::get_if<data::bpe_tokenizer>(&tokenizer_);
  if (special_ && merged != nullptr) return merged->encode_with_specials(text, tokens);
  std::visit([&](auto& t) { t.encode(text, tokens); }, tokenizer_);
}

std::span<const data::special_token> text_codec::specials() const {
  const auto* const merged = std::get_if<data::bpe_tokenizer>(&tokenizer_);
  if (!special_ || merged == nullptr) return {};
  return merged->table().specials;
}

causeway::result<void> text_codec::check_special() const {
  if (!special_ || !specials().empty()) return {};
  return fail(errc::invalid_argument, "data.special",
              "this tokenizer has no special tokens; leave it out, or name another tokenizer with --data.tokenizer DIR");
}

causeway::result<void> text_codec::check_special_of_texts() const {
  CAUSEWAY_TRY(check_special());
  for (const data::special_token& s : specials()) {
    if (s.name.find_first_of(" \t\r\n\f\v") == std::string::npos) continue;
    return fail(errc::unsupported, "data.special",
                "the special token '" + s.name + "' has white space in its name, at which texts are cut; leave it out");
  }
  return {};
}

std::string text_codec::bytes_of(std::span<const std::int32_t> tokens) const {
  std::string text;
  for (const std::int32_t token : tokens) {
    const auto named = specials();
    const auto special = std::find_if(named.begin(), named.end(), [&](const auto& s) { return s.token == token; });
    if (special != named.end()) text += special->name;
    const auto outcome = std::visit([&](const auto& t) { return t.decode(std::span{&token, 1}, text); }, tokenizer_);
    if (!outcome) return outcome.error().text();
  }
  return text;
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

data::token_width text_codec::width() const {
  return vocabulary() <= 65536 ? data::token_width::two : data::token_width::four;
}

}  // namespace app
