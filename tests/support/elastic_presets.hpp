// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_ELASTIC_PRESETS_HPP
#define CAUSEWAY_TESTS_SUPPORT_ELASTIC_PRESETS_HPP

// Communication presets that tests/presets/elastic.cpp trains among peers that come and go.

#include <string_view>

namespace support {

inline constexpr std::string_view elastic_presets[] = {"every_step",
                                                       "diloco",
                                                       "open_diloco",
                                                       "intellect1",
                                                       "muloco",
                                                       "local_sgd",
                                                       "fedavg",
                                                       "photon",
                                                       "des_loc",
                                                       "co_learning",
                                                       "streaming_diloco",
                                                       "eager_diloco",
                                                       "cocodc",
                                                       "sparse_loco",
                                                       "sparta",
                                                       "sparta_diloco",
                                                       "demo",
                                                       "distro",
                                                       "gaia",
                                                       "cocktail_sgd",
                                                       "dedloc",
                                                       "power_sgd",
                                                       "noloco",
                                                       "moshpit_sgd",
                                                       "bacombo",
                                                       "netstorm",
                                                       "edit",
                                                       "dion",
                                                       "decoupled_diloco",
                                                       "async_local_sgd",
                                                       "dlion",
                                                       "ravnest",
                                                       "a_edit",
                                                       "stella_train",
                                                       "gaia_asp",
                                                       "dipaco",
                                                       "halos"};

/// Those that tests/parallel/swarm/local_swarm_*.cpp train in swarms whose peers take local steps.
inline constexpr std::string_view local_swarm_presets[] = {
    "diloco",          "open_diloco",      "intellect1",  "muloco",        "local_sgd",   "fedavg",
    "photon",          "sparse_loco",      "sparta",      "des_loc",       "edit",        "streaming_diloco",
    "eager_diloco",    "cocktail_sgd",     "gaia",        "sparta_diloco", "moshpit_sgd", "noloco",
    "bacombo",         "ravnest",          "co_learning", "cocodc",        "dedloc",      "gaia_asp",
    "async_local_sgd", "decoupled_diloco", "dipaco",      "halos",         "dlion"};

/// Those that tests/parallel/local_pipeline.cpp and tests/parallel/elastic/local_pipeline_*.cpp train in pipelines whose
/// replicas do.
inline constexpr std::string_view local_pipeline_presets[] = {
    "diloco",           "open_diloco",  "intellect1",   "muloco",      "local_sgd",       "fedavg",
    "photon",           "sparse_loco",  "gaia",         "sparta",      "des_loc",         "edit",
    "streaming_diloco", "eager_diloco", "cocktail_sgd", "moshpit_sgd", "noloco",          "bacombo",
    "sparta_diloco",    "co_learning",  "cocodc",       "ravnest",     "async_local_sgd", "decoupled_diloco",
    "dipaco",           "gaia_asp",     "halos",        "dlion",       "a_edit"};

/// Those that tests/parallel/local_async_pipeline.cpp and tests/parallel/elastic/local_async_pipeline_*.cpp train in
/// pipelines without a flush between two exchanges.
inline constexpr std::string_view local_async_pipeline_presets[] = {
    "diloco",           "open_diloco",      "intellect1",   "muloco",      "local_sgd", "fedavg",
    "photon",           "sparse_loco",      "gaia",         "sparta",      "des_loc",   "edit",
    "streaming_diloco", "eager_diloco",     "cocktail_sgd", "moshpit_sgd", "noloco",    "bacombo",
    "sparta_diloco",    "co_learning",      "cocodc",       "ravnest",     "dipaco",    "gaia_asp",
    "async_local_sgd",  "decoupled_diloco", "halos",        "dlion",       "a_edit"};

/// Those that tests/parallel/elastic_pipeline.cpp and elastic/elastic_{gradients,gathered,late}.cpp train in pipelines that
/// make all steps together.
inline constexpr std::string_view elastic_pipeline_presets[] = {"every_step", "demo",   "power_sgd", "dion",
                                                                "netstorm",   "dedloc", "distro",    "stella_train"};

/// Those that tests/parallel/swarm.cpp and tests/parallel/swarm/swarm_gradients.cpp train in swarms.
inline constexpr std::string_view swarm_presets[] = {"every_step", "demo",   "power_sgd",   "dion",
                                                     "netstorm",   "distro", "stella_train"};

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_ELASTIC_PRESETS_HPP
