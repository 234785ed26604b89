// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_DATA_IMPL_DATA_FILES_IPP
#define CAUSEWAY_DATA_IMPL_DATA_FILES_IPP

#include <causeway/data/data_files.hpp>

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace data { namespace detail {

CAUSEWAY_DECL data_kind kind_of(const std::string& path) {
  if (path.ends_with(".jsonl")) return data_kind::json_lines;
  return path.ends_with(".bin") ? data_kind::tokens : data_kind::text;
}

/// Notes that lie beside data, such as README.md, are none.
CAUSEWAY_DECL result<std::vector<std::string>> files_of_folder(const std::string& folder) {
  const text_options wanted{.extensions = {".txt", ".text", ".md", ".rst", ".jsonl", ".bin"}};
  CAUSEWAY_ASSIGN(std::vector<std::string> paths, text_files(folder, wanted));
  const bool only_text =
      std::all_of(paths.begin(), paths.end(), [](const std::string& p) { return kind_of(p) == data_kind::text; });
  if (!only_text) std::erase_if(paths, [](const std::string& p) { return p.ends_with(".md") || p.ends_with(".rst"); });
  if (!paths.empty()) return paths;
  return fail(errc::not_found, folder,
              "the folder holds no training data (" + wanted_extensions(wanted) +
                  "). Give another folder, or a text file by its full path");
}

/// What stands between commas.
CAUSEWAY_DECL result<std::vector<std::string>> named_paths(const std::string& where) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  std::vector<std::string> names;
  for (std::size_t at = 0; at <= where.size();) {
    const std::size_t comma = fs::exists(where, ignored) ? where.size() : std::min(where.find(',', at), where.size());
    if (comma > at) names.push_back(where.substr(at, comma - at));
    at = comma + 1;
  }
  for (const std::string& name : names) {
    if (fs::exists(name, ignored)) continue;
    return fail(errc::not_found, name, "there is no such file or folder. Check the path of the training data");
  }
  if (names.empty()) return fail(errc::not_found, "training data", "no path is given. Name a file or a folder");
  return names;
}

CAUSEWAY_DECL bool is_for_validation(const std::string& path) {
  const std::string name = std::filesystem::path{path}.stem().string();
  constexpr std::string_view words[]{"val", "valid", "validation"};
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t end = std::min(name.find_first_of("_-. ", at), name.size());
    if (std::find(std::begin(words), std::end(words), std::string_view{name}.substr(at, end - at)) != std::end(words))
      return true;
    at = end + 1;
  }
  return false;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::data::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace data {

CAUSEWAY_DECL result<data_files> find_data(const std::string& where) {
  CAUSEWAY_ASSIGN(const std::vector<std::string> names, detail::named_paths(where));
  data_files files;
  for (const std::string& name : names) {
    std::error_code ignored;
    std::vector<std::string> found{name};
    if (std::filesystem::is_directory(name, ignored)) {
      CAUSEWAY_ASSIGN(found, detail::files_of_folder(name));
    }
    files.paths.insert(files.paths.end(), found.begin(), found.end());
  }
  files.kind = detail::kind_of(files.paths.front());
  const auto other = std::find_if(files.paths.begin(), files.paths.end(),
                                  [&](const std::string& p) { return detail::kind_of(p) != files.kind; });
  if (other == files.paths.end()) return files;
  return fail(
      errc::unsupported, where,
      "holds data of several kinds, such as " + files.paths.front() + " and " + *other +
          ". Train on text, on JSON lines (.jsonl) or on token shards (.bin): give a folder of one kind, or the files "
          "that you want, separated by commas");
}

CAUSEWAY_DECL std::vector<std::string> take_validation(data_files& files) {
  if (files.kind == data_kind::text) return {};
  const auto first = std::stable_partition(files.paths.begin(), files.paths.end(),
                                           [](const std::string& p) { return !detail::is_for_validation(p); });
  if (first == files.paths.begin()) return {};  // all of them: then it is what somebody wants to train on
  std::vector<std::string> validation{first, files.paths.end()};
  files.paths.erase(first, files.paths.end());
  return validation;
}

}}}  // namespace causeway::CAUSEWAY_ABI::data

#endif  // CAUSEWAY_DATA_IMPL_DATA_FILES_IPP
