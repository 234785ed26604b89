// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_MODELS_HPP
#define CAUSEWAY_TESTS_SUPPORT_MODELS_HPP

// The models of the processor, compiled once, in models.cpp: most of what a test that trains one would compile is their
// kernels. For folders that name `models` in tests/CMakeLists.txt.

#include <causeway/nn/gpt.hpp>
#include <causeway/nn/llama.hpp>

extern template class causeway::nn::language_model<causeway::nn::gpt_family>;
extern template class causeway::nn::language_model<causeway::nn::llama_family>;

#endif  // CAUSEWAY_TESTS_SUPPORT_MODELS_HPP
