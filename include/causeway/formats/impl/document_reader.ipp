// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_FORMATS_IMPL_DOCUMENT_READER_IPP
#define CAUSEWAY_FORMATS_IMPL_DOCUMENT_READER_IPP

#include <causeway/formats/document_reader.hpp>

#include <causeway/core/hash.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/data/text.hpp>
#include <causeway/formats/json.hpp>

#include <algorithm>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats {

CAUSEWAY_DECL json_lines::json_lines(std::string_view text, std::string where, std::string field)
    : text_{text}, where_{std::move(where)}, field_{std::move(field)} {}

CAUSEWAY_DECL result<std::optional<std::string>> json_lines::next() {
  while (at_ < text_.size()) {
    const std::size_t end = std::min(text_.find('\n', at_), text_.size());
    const std::string_view line = text_.substr(at_, end - at_);
    at_ = std::min(end + 1, text_.size());
    ++line_;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    CAUSEWAY_ASSIGN(std::string text, text_in(line));
    return std::optional{std::move(text)};
  }
  return std::optional<std::string>{};
}

CAUSEWAY_DECL result<std::string> json_lines::text_in(std::string_view line) const {
  const std::string where = where_ + ", line " + std::to_string(line_);
  CAUSEWAY_ASSIGN(json_value root, parse_json(line, where, {.values = std::size_t{1} << 16U}));
  if (!root.is_object()) {
    return fail(errc::corrupt, where,
                "is no JSON object. JSON lines have an object in each line, such as {\"text\": \"...\"}");
  }
  const auto at = std::find(root.names.begin(), root.names.end(), field_) - root.names.begin();
  if (at == std::ssize(root.names)) {
    std::string names;
    for (std::size_t i = 0; i < std::min<std::size_t>(root.names.size(), 8); ++i) {
      names += (i == 0 ? "" : ", ") + root.names[i].substr(0, 40);
    }
    return fail(errc::corrupt, where,
                "has no '" + field_ + "' (it has: " + names + "). Say which member is the text with data.field");
  }
  json_value& found = root.items[static_cast<std::size_t>(at)];
  if (found.is(json_value::kind::text)) return std::move(found.text);
  return fail(errc::corrupt, where, "has a '" + field_ + "' that is no text. Say which member is the text with data.field");
}

}}}  // namespace causeway::CAUSEWAY_ABI::formats

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats { namespace detail {

inline std::string_view text_of(const io::mapped_file& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

}}}}  // namespace causeway::CAUSEWAY_ABI::formats::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats {

CAUSEWAY_DECL document_reader::document_reader(data::data_files files, std::string field, std::size_t piece_bytes)
    : files_{std::move(files)}, field_{std::move(field)}, piece_bytes_{piece_bytes} {}

CAUSEWAY_DECL result<document_reader> document_reader::open(data::data_files files, std::string field,
                                                            std::size_t piece_bytes) {
  if (files.kind == data::data_kind::tokens) {
    return fail(errc::unsupported, files.paths.front(), "holds tokens already. Give text, or JSON lines (.jsonl)");
  }
  document_reader reader{std::move(files), std::move(field), piece_bytes};
  for (const std::string& path : reader.files_.paths) {
    CAUSEWAY_ASSIGN(const io::mapped_file file, io::mapped_file::open(path));
    reader.size_ += file.bytes().size();
  }
  return reader;
}

CAUSEWAY_DECL std::uint64_t document_reader::position() const noexcept {
  return before_ + (lines_ ? lines_->position() : at_);
}

CAUSEWAY_DECL bool document_reader::has_several() const noexcept {
  return files_.paths.size() > 1 || files_.kind == data::data_kind::json_lines;
}

CAUSEWAY_DECL result<void> document_reader::open_next() {
  if (file_) before_ += file_->bytes().size();
  CAUSEWAY_ASSIGN(file_, io::mapped_file::open(files_.paths[opened_]));
  at_ = 0;
  lines_.reset();
  if (files_.kind == data::data_kind::json_lines) lines_.emplace(detail::text_of(*file_), files_.paths[opened_], field_);
  ++opened_;
  return {};
}

CAUSEWAY_DECL result<std::optional<document_piece>> document_reader::next() {
  for (;;) {
    if (file_) {
      CAUSEWAY_ASSIGN(const auto piece, lines_ ? next_of_lines() : next_of_text());
      if (piece) return piece;
    }
    if (opened_ == files_.paths.size()) return std::optional<document_piece>{};
    CAUSEWAY_TRY(open_next());
  }
}

CAUSEWAY_DECL result<std::optional<document_piece>> document_reader::next_of_text() {
  const std::string_view all = detail::text_of(*file_);
  if (at_ == all.size()) return std::optional<document_piece>{};
  const std::string_view left = all.substr(at_);
  const std::string_view text = left.substr(0, data::where_to_cut(left, piece_bytes_));
  if (const auto bad = data::first_invalid_utf8(text)) {
    return data::detail::not_utf8(files_.paths[opened_ - 1], all, at_ + *bad);
  }
  at_ += text.size();
  return std::optional{document_piece{text, at_ == all.size()}};
}

CAUSEWAY_DECL result<std::optional<document_piece>> document_reader::next_of_lines() {
  for (;;) {
    CAUSEWAY_ASSIGN(auto line, lines_->next());
    if (!line) return std::optional<document_piece>{};
    if (line->empty()) continue;
    line_ = std::move(*line);
    return std::optional{document_piece{line_, true}};
  }
}

CAUSEWAY_DECL result<std::uint64_t> document_reader::content_hash() const {
  const bool lines = files_.kind == data::data_kind::json_lines;
  std::uint64_t hash = lines ? hash_text(field_) : 0;
  for (const std::string& path : files_.paths) {
    CAUSEWAY_ASSIGN(const io::mapped_file file, io::mapped_file::open(path));
    hash = mix(hash, hash_text(detail::text_of(file)), file.bytes().size());
  }
  return hash;
}

}}}  // namespace causeway::CAUSEWAY_ABI::formats

#endif  // CAUSEWAY_FORMATS_IMPL_DOCUMENT_READER_IPP
