// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_SITE_MODEL_HPP
#define CAUSEWAY_EXAMPLES_SITE_MODEL_HPP

// The program's model, computed by all ranks of a site together: train/site_model.hpp.

#include <causeway/collective/mpi_site.hpp>
#include <causeway/core/result.hpp>

#include <cstdint>
#include <memory>

#include "chosen_model.hpp"

namespace app {

/// For the first rank: `model`, with gradients of all ranks. Equal to the model alone but for the order of sums; with two
/// ranks and one micro-batch, to one process with two micro-batches that are added apart (parallel::data_parallel).
chosen_model make_site_model(chosen_model model, std::shared_ptr<causeway::collective::mpi_site> site);

/// For the others: computes until `dismiss_site`.
causeway::result<void> serve_site(causeway::collective::mpi_site& site, chosen_model& model);

causeway::result<void> dismiss_site(causeway::collective::mpi_site& site);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_SITE_MODEL_HPP
