// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_STARTING_MODEL_HPP
#define CAUSEWAY_EXAMPLES_STARTING_MODEL_HPP

// A run that starts from a stored model, model.init. Its shape becomes settings of the run, and so does a hash of its
// weights, model.start: peers of one run can only start from equal weights, wherever their copies are.

#include <causeway/core/result.hpp>
#include <causeway/data/bpe_tokenizer.hpp>

#include <string>

#include "settings.hpp"

namespace app {

class chosen_model;

/// Where model.init is given, the settings that follow from it. What was set here (`from`) must agree with it; the context
/// may be shorter. Its tokenizer is the run's unless data.tokenizer says another. For the peer that starts the run.
causeway::result<void> take_init(settings& s, const origins& from);

/// The tokenizer of model.init.
causeway::result<causeway::data::bpe_tokenizer> tokenizer_of_model(const settings& s);

/// What model.start is for a folder.
causeway::result<std::string> hash_of_weights(const std::string& folder);

/// Whether model.init is here and is what the run starts from, model.start.
causeway::result<void> check_start(const settings& s);

/// Fills a model that is to start from model.start. `state_comes`: the parameters will be replaced anyway, by a checkpoint
/// or by another peer's state, so that the folder need not be here.
causeway::result<void> start_from(chosen_model& model, const settings& s, bool state_comes);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_STARTING_MODEL_HPP
