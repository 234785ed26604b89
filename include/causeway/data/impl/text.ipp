// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_DATA_IMPL_TEXT_IPP
#define CAUSEWAY_DATA_IMPL_TEXT_IPP

#include <causeway/data/text.hpp>

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace data {

CAUSEWAY_DECL result<std::string> load_text(const std::string& path, const text_options& options) {
  CAUSEWAY_ASSIGN(const std::vector<document> documents, load_documents(path, options));
  std::string text;
  for (const document& d : documents) {
    if (!text.empty()) text += text.back() == '\n' ? "\n" : "\n\n";
    text += d.text;
  }
  return text;
}

}}}  // namespace causeway::CAUSEWAY_ABI::data

namespace causeway { inline namespace CAUSEWAY_ABI { namespace data { namespace detail {

CAUSEWAY_DECL std::size_t utf8_sequence(std::string_view s) noexcept {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(s[i]); };
  const unsigned char lead = at(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (s.size() < length) return 0;
  const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;   // no overlong forms
  const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;  // no surrogates, nothing past U+10FFFF
  if (at(1) < low || at(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if ((at(i) & 0xC0U) != 0x80U) return 0;
  }
  return length;
}

CAUSEWAY_DECL bool begins_visibly(std::string_view s) noexcept {
  if (s.empty()) return false;
  const auto lead = static_cast<unsigned char>(s[0]);
  if (lead < 0x80) return lead > ' ';
  if (lead < 0xC3 || lead == 0xE1 || lead == 0xE2) return false;          // U+0085, U+00A0, U+1680, U+2000 and others
  return lead != 0xE3 || (s.size() > 2 && s.substr(1, 2) != "\x80\x80");  // U+3000
}

CAUSEWAY_DECL bool ends_visibly(std::string_view s) noexcept {
  std::size_t lead = s.size();
  while (lead > 0 && s.size() - lead < 4 && (static_cast<unsigned char>(s[--lead]) & 0xC0U) == 0x80U) {
  }
  return begins_visibly(s.substr(lead));
}

CAUSEWAY_DECL result<std::vector<std::string>> text_files(const std::string& folder, const text_options& options) {
  namespace fs = std::filesystem;
  std::vector<std::string> paths;
  std::error_code failure;
  fs::recursive_directory_iterator it{folder, fs::directory_options::follow_directory_symlink, failure};
  for (; !failure && it != fs::recursive_directory_iterator{}; it.increment(failure)) {
    const fs::path& entry = it->path();
    std::error_code ignored;
    if (entry.filename().native().starts_with('.')) {
      if (it->is_directory(ignored)) it.disable_recursion_pending();
      continue;
    }
    const auto& wanted = options.extensions;
    const bool fits = wanted.empty() || std::find(wanted.begin(), wanted.end(), entry.extension()) != wanted.end();
    if (fits && it->is_regular_file(ignored)) paths.push_back(entry.string());
  }
  if (failure) return fail(errc::io_failed, folder, "could not read the folder: " + failure.message());
  std::sort(paths.begin(), paths.end());
  return paths;
}

CAUSEWAY_DECL error not_utf8(const std::string& name, std::string_view text, std::size_t offset) {
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(offset), '\n');
  constexpr std::string_view digits = "0123456789abcdef";
  const auto bad = static_cast<unsigned char>(text[offset]);
  return fail(errc::bad_text, name,
              std::string{"not UTF-8: byte 0x"} + digits[bad >> 4U] + digits[bad & 15U] + " at offset " +
                  std::to_string(offset) + ", line " + std::to_string(line) +
                  ". Convert the file (iconv -f LATIN1 -t UTF-8), or leave it out");
}

CAUSEWAY_DECL result<document> load_document(const std::string& path, const text_options& options) {
  CAUSEWAY_ASSIGN(const io::mapped_file file, io::mapped_file::open(path));
  document d{path, std::string{reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}};
  if (options.require_utf8) {
    if (const auto bad = first_invalid_utf8(d.text)) return not_utf8(d.name, d.text, *bad);
  }
  return d;
}

CAUSEWAY_DECL std::string wanted_extensions(const text_options& options) {
  std::string list;
  for (const std::string& e : options.extensions) list += (list.empty() ? "*" : ", *") + e;
  return list.empty() ? "regular files" : list;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::data::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace data {

CAUSEWAY_DECL std::optional<std::size_t> first_invalid_utf8(std::string_view text) noexcept {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length = detail::utf8_sequence(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return std::nullopt;
}

CAUSEWAY_DECL std::size_t where_to_cut(std::string_view text, std::size_t least) noexcept {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  for (std::size_t i = std::max<std::size_t>(least, 1); i + 1 < text.size(); ++i) {
    const bool ends_line = text[i - 1] == '\n' && detail::ends_visibly(text.substr(0, i - 1));
    if (ends_line && detail::begins_visibly(text.substr(i))) return i;
    if (is_letter(text[i - 1]) && text[i] == ' ' && is_letter(text[i + 1])) return i;
  }
  return text.size();
}

CAUSEWAY_DECL result<std::vector<document>> load_documents(const std::string& path, const text_options& options) {
  std::error_code failure;
  const auto status = std::filesystem::status(path, failure);
  if (!std::filesystem::exists(status)) {
    return fail(errc::not_found, path, "there is no such file or folder. Check the path of the training text");
  }
  std::vector<std::string> paths{path};
  if (std::filesystem::is_directory(status)) {
    CAUSEWAY_ASSIGN(paths, detail::text_files(path, options));
    if (paths.empty()) {
      return fail(errc::not_found, path,
                  "the folder holds no text (" + detail::wanted_extensions(options) +
                      "). Give another folder, or a file by its full path");
    }
  }
  std::vector<document> documents;
  std::size_t bytes = 0;
  for (const std::string& p : paths) {
    CAUSEWAY_ASSIGN(document d, detail::load_document(p, options));
    bytes += d.text.size();
    if (!d.text.empty()) documents.push_back(std::move(d));
  }
  if (bytes == 0) return fail(errc::bad_text, path, "the text is empty. Give a file with text in it");
  if (bytes < options.minimum_bytes) {
    return fail(errc::bad_text, path,
                "the text is too short: " + std::to_string(bytes) + " bytes, " + std::to_string(options.minimum_bytes) +
                    " are needed. Give more text, or shorten the context");
  }
  return documents;
}

}}}  // namespace causeway::CAUSEWAY_ABI::data

#endif  // CAUSEWAY_DATA_IMPL_TEXT_IPP
