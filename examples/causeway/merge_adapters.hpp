// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_MERGE_ADAPTERS_HPP
#define CAUSEWAY_EXAMPLES_MERGE_ADAPTERS_HPP

// What a run tuned of a model that servers hold, for those who generate and export: a model of its own.

#include <causeway/core/result.hpp>
#include <causeway/io/section_file.hpp>
#include <causeway/parallel/serving/tuned_parameters.hpp>

#include "chosen_model.hpp"
#include "settings.hpp"
#include "text_codec.hpp"

namespace app {

/// What tune.* asks for.
causeway::parallel::tuning_options tuning_of(const settings& s);

/// The model of model.init with the adapters of a checkpoint in its weights: W + alpha/rank · B·A. errc::not_found,
/// wrong_model: see check_start. errc::unsupported where there are prompts, which are no part of a model.
causeway::result<chosen_model> merged_model(const settings& s, text_codec& codec, const causeway::io::section_file& from);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_MERGE_ADAPTERS_HPP
