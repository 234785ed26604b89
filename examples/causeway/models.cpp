// SPDX-License-Identifier: Apache-2.0
#include "model_options.hpp"

template class causeway::nn::language_model<causeway::nn::gpt_family>;
template class causeway::nn::language_model<causeway::nn::llama_family>;
