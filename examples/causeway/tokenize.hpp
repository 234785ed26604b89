// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_TOKENIZE_HPP
#define CAUSEWAY_EXAMPLES_TOKENIZE_HPP

// causeway tokenize IN OUT: text, once, to token shards that runs and other programs read.

#include <causeway/core/result.hpp>

#include <string>
#include <vector>

#include "settings.hpp"

namespace app {

/// IN is as data.path; OUT is a folder that is not there yet. It appears whole, with the tokenizer in it, or not at all.
causeway::result<int> tokenize(settings s, const std::vector<std::string>& positional);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_TOKENIZE_HPP
