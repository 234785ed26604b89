// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_RUN_FOLDER_HPP
#define CAUSEWAY_EXAMPLES_RUN_FOLDER_HPP

// The folder of a run: how it is made and deleted, and the file in it, settings.toml, that says what the run is. The first
// line of that file is the mark by which this program knows a folder as its own; no other folder is ever deleted.

#include <causeway/core/result.hpp>

#include <optional>
#include <string>

#include "settings.hpp"

namespace app {

/// Makes the folder of the run of `s`. With run.fresh it is deleted first, if it is a run that no process uses: else
/// errc::invalid_argument. A joiner's folder is never deleted: the run is there.
causeway::result<void> make_run_folder(const settings& s);

/// The TOML that a run keeps in `folder`; none if it keeps none.
std::optional<std::string> kept_settings(const std::string& folder);
/// Where it keeps it: for messages.
std::string settings_file(const std::string& folder);
/// Keeps the settings of `s` that all peers share, whole or not at all.
causeway::result<void> keep_settings(settings& s, const std::string& folder);

/// Keeps the settings of `s` in a folder whose run has not trained yet; else checks that they are the same as those there.
/// errc::wrong_model names what differs. Takes the branch of the run over.
causeway::result<void> agree_on_settings(settings& s, const std::string& folder);
/// The same for a run of fixed peers, whose length, peers and policy may change from one start to the next. The model and
/// the cut of the text may not.
causeway::result<void> agree_on_model(settings& s, const std::string& folder);

/// Keeps in `folder` where the copies of the stages are, parallel.store; where `s` does not say, it is as it was kept. It
/// is a matter of this machine, so settings.toml, which all peers share, does not have it.
causeway::result<void> agree_on_store(settings& s, const std::string& folder);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_RUN_FOLDER_HPP
