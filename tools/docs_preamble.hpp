// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TOOLS_DOCS_PREAMBLE_HPP
#define CAUSEWAY_TOOLS_DOCS_PREAMBLE_HPP

// What blocks of C++ in docs/ take for granted, for tools/check_docs.py --compile: declared, never defined.

#include <causeway/causeway.hpp>

#include <support/catch.hpp>
#include <support/conformance.hpp>

#include "../examples/leave_when_asked.hpp"
#include "../examples/random_pair.hpp"
#include "../examples/sequence_by_sequence.hpp"

extern causeway::nn::gpt model;
extern causeway::environment env;
extern const causeway::trainer_options options;
extern const std::uint64_t steps;
causeway::batch global_batch(std::uint64_t step);

// Peers that come and go.
extern const std::shared_ptr<causeway::net::fabric> fabric, stage_fabric, swarm_fabric;
extern const causeway::io::any_storage disk;
extern causeway::member_options settings;
extern const std::shared_ptr<causeway::member> mates;
extern const std::string folder;
extern const std::shared_ptr<causeway::pipeline_group> group;

extern const std::shared_ptr<causeway::cuda::engine> engine;

#endif  // CAUSEWAY_TOOLS_DOCS_PREAMBLE_HPP
