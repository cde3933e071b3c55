// Begins the console.

import { mount } from 'svelte';
import App from './App.svelte';
import './app.css';
import './table.css';

const target = document.getElementById('app');
if (target) mount(App, { target });
