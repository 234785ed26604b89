// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_PIPELINE_RECOVERIES_HPP
#define CAUSEWAY_EXAMPLES_PIPELINE_RECOVERIES_HPP

// What becomes of lost stages of pipelines, by its name, and what the library's rules say of it.

#include <causeway/core/result.hpp>

#include <string>
#include <vector>

#include "settings.hpp"

namespace app {

[[nodiscard]] std::vector<std::string> recovery_names();

/// Whether its pipelines are cut in different ways, or a peer has stages of others besides its own.
[[nodiscard]] bool cuts_apart(const settings& s);

/// Of pipelines whose peers come and go. errc::invalid_argument: rule C8 refuses the recovery with what is exchanged.
causeway::result<void> check_recovery(const settings& s);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_PIPELINE_RECOVERIES_HPP
