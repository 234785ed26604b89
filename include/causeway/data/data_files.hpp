// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_DATA_DATA_FILES_HPP
#define CAUSEWAY_DATA_DATA_FILES_HPP

// Which files a run trains on, from what a person says: a file, a folder, or several of these separated by commas. All
// files are of one kind, told by the ends of their names, and come in an order that is the same on every machine.

#include <causeway/core/result.hpp>
#include <causeway/data/text.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace data {

enum class data_kind : std::uint8_t {
  text,        ///< a document each
  json_lines,  ///< *.jsonl: a document in each line
  tokens,      ///< *.bin: token shards
};

struct data_files {
  data_kind kind = data_kind::text;
  std::vector<std::string> paths;
};

/// The files that `where` names. Of a folder: all *.txt, *.jsonl or *.bin (and *.text, *.md, *.rst where these are not
/// beside data of another kind) in it and below, ordered by path, byte by byte; hidden ones are left out. A file that is
/// named itself is text unless it ends in .jsonl or .bin. A path with a comma in it is taken whole if it exists.
/// Errors: errc::not_found (no such path; nothing in the folder), errc::unsupported (files of several kinds).
CAUSEWAY_DECL result<data_files> find_data(const std::string& where);

/// Takes out the files that are for validation by their names, if the others are not: those with the word "val", "valid" or
/// "validation" in it, as in val.bin and fineweb_val_000000.bin. Not of texts, whose names mean anything.
CAUSEWAY_DECL std::vector<std::string> take_validation(data_files& files);

namespace detail {

CAUSEWAY_DECL data_kind kind_of(const std::string& path);
CAUSEWAY_DECL result<std::vector<std::string>> files_of_folder(const std::string& folder);
CAUSEWAY_DECL result<std::vector<std::string>> named_paths(const std::string& where);
CAUSEWAY_DECL bool is_for_validation(const std::string& path);

}  // namespace detail

}}}  // namespace causeway::CAUSEWAY_ABI::data

#ifndef CAUSEWAY_COMPILED
#include <causeway/data/impl/data_files.ipp>
#endif

#endif  // CAUSEWAY_DATA_DATA_FILES_HPP
