// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_DATA_PATHS_HPP
#define CAUSEWAY_EXAMPLES_DATA_PATHS_HPP

// The files that data.path and data.validation_path name.

#include <causeway/core/result.hpp>
#include <causeway/data/data_files.hpp>
#include <causeway/data/token_stream.hpp>

#include <optional>
#include <utility>

#include "settings.hpp"

namespace app {

struct data_paths {
  causeway::data::data_files train;
  std::optional<causeway::data::data_files> validation;  ///< of the same kind; none: a share of the others
};

/// Validation has files of its own where data.validation_path says so, or the names of the files do.
inline causeway::result<data_paths> find_data_paths(const settings& s) {
  namespace data = causeway::data;
  data_paths found;
  CAUSEWAY_ASSIGN(found.train, data::find_data(s.data.path));
  auto by_name = data::take_validation(found.train);
  if (!s.data.validation_path.empty()) {
    CAUSEWAY_ASSIGN(found.validation, data::find_data(s.data.validation_path));
    if (found.validation->kind == found.train.kind) return found;
    return causeway::fail(causeway::errc::invalid_argument, "data.validation_path",
                          "is of another kind than data.path; give text, JSON lines or token shards as both");
  }
  if (!by_name.empty()) found.validation = data::data_files{found.train.kind, std::move(by_name)};
  return found;
}

/// How wide tokens in files without a header are, if that was said.
inline std::optional<causeway::data::token_width> bare_width(const settings& s) {
  if (s.data.token_type.empty()) return std::nullopt;
  return s.data.token_type == "u16" ? causeway::data::token_width::two : causeway::data::token_width::four;
}

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_DATA_PATHS_HPP
